/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Strings as the specification wants them: UTF-8 without NUL.
 */
#ifndef NBD_TEXT_H
#define NBD_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Whether it is UTF-8 (RFC 3629: no surrogates, nothing overlong) without NUL. */
bool
nbd_text_valid(const char *text, size_t length);

/* The most bytes of a valid text, up to `most`, that don't cut a character. */
size_t
nbd_text_cut(const char *text, size_t most);

#endif
