/* SPDX-License-Identifier: BSD-3-Clause */
#include "nbd/text.h"

#include <stdint.h>
#include <string.h>

static bool
is_continuation(char byte)
{
	return ((unsigned char)byte & 0xc0) == 0x80;
}

static size_t
length_by_first(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first < 0xc0 || first >= 0xf8)
		return 0;
	return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Returns the length of the character at the beginning of text, or 0 if its `left` bytes begin with
 * no valid one. */
static size_t
character_length(const char *text, size_t left)
{
	static const uint32_t least[] = {0, 1, 0x80, 0x800, 0x10000};
	unsigned char first = (unsigned char)text[0];
	size_t length = length_by_first(first);
	uint32_t code = length < 2 ? first : first & (0x7fu >> length);

	if (!length || length > left)
		return 0;
	for (size_t i = 1; i < length; i++) {
		if (!is_continuation(text[i]))
			return 0;
		code = code << 6 | ((unsigned char)text[i] & 0x3f);
	}
	if (code < least[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	return length;
}

bool
nbd_text_valid(const char *text, size_t length)
{
	while (length) {
		size_t step = character_length(text, length);

		if (!step)
			return false;
		text += step;
		length -= step;
	}
	return true;
}

size_t
nbd_text_cut(const char *text, size_t most)
{
	size_t length = strnlen(text, most + 1);

	if (length <= most)
		return length;
	while (most && is_continuation(text[most]))
		most--;
	return most;
}
