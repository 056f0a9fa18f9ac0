/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UTF-8 (RFC 3629), which the names of files need not be, while what shows them must.
 */
#ifndef COMMON_UTF8_H
#define COMMON_UTF8_H

#include <stddef.h>

/* U+FFFD, the replacement character. */
#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/*
 * Returns the length of the UTF-8 sequence at the start of the text, in bytes, or 0 if there is
 * none. The text ends with a NUL.
 */
size_t
utf8_length(const unsigned char *text);

#endif
