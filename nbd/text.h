/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strings as the specification demands them ("Conventions"): UTF-8 without NUL.
 */
#ifndef NBD_TEXT_H
#define NBD_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Returns whether `length` bytes of text are UTF-8 (RFC 3629: no surrogates, nothing overlong)
 * without NUL. */
bool
nbd_text_valid(const char *text, size_t length);

/* Returns the length in bytes, at most `most`, of the longest beginning of a valid, NUL-terminated
 * text that doesn't cut a character. */
size_t
nbd_text_cut(const char *text, size_t most);

#endif
