/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/utf8.h"

size_t
utf8_length(const unsigned char *text)
{
	/* The bounds of the second byte exclude overlong forms, UTF-16 surrogates and everything
	 * above U+10FFFF. */
	unsigned char low = 0x80, high = 0xbf;
	size_t length;

	if (text[0] < 0x80)
		return 1;
	if (text[0] >= 0xc2 && text[0] <= 0xdf)
		length = 2;
	else if ((text[0] & 0xf0) == 0xe0)
		length = 3;
	else if (text[0] >= 0xf0 && text[0] <= 0xf4)
		length = 4;
	else
		return 0;

	if (text[0] == 0xe0)
		low = 0xa0;
	else if (text[0] == 0xed)
		high = 0x9f;
	else if (text[0] == 0xf0)
		low = 0x90;
	else if (text[0] == 0xf4)
		high = 0x8f;
	if (text[1] < low || text[1] > high)
		return 0;
	/* A NUL, at the end of the text, is no continuation byte either. */
	for (size_t i = 2; i < length; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	return length;
}
