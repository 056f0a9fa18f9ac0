/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/nbd/pattern.h"

#include <string.h>

/* The eight bytes at offset 8 * index. */
static uint64_t
pattern_word(uint64_t index, uint32_t pattern)
{
	uint64_t z = (index + 1) * 0x9e3779b97f4a7c15u + pattern * 0xd1342543de82ef95u;

	if (pattern == PATTERN_ZEROES)
		return 0;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	return z ^ (z >> 27);
}

void
pattern_fill(void *buffer, size_t length, uint64_t offset, uint32_t pattern)
{
	unsigned char *at = buffer;

	/* Nearly all, so that most of a test's time is the server's. */
	for (; offset % 8 == 0 && length >= 8; at += 8, offset += 8, length -= 8) {
		uint64_t word = pattern_word(offset / 8, pattern);

		memcpy(at, &word, 8);
	}
	while (length > 0) {
		uint64_t word = pattern_word(offset / 8, pattern);
		size_t skip = offset % 8;
		size_t piece = 8 - skip < length ? 8 - skip : length;

		memcpy(at, (const unsigned char *)&word + skip, piece);
		at += piece;
		offset += piece;
		length -= piece;
	}
}

ssize_t
pattern_mismatch(const void *buffer, size_t length, uint64_t offset, uint32_t pattern)
{
	const unsigned char *bytes = buffer;
	size_t done = 0;

	while (done < length) {
		unsigned char expected[4096];
		size_t piece = length - done < sizeof(expected) ? length - done : sizeof(expected);
		ssize_t at;

		pattern_fill(expected, piece, offset + done, pattern);
		at = bytes_mismatch(bytes + done, expected, piece);
		if (at >= 0)
			return (ssize_t)done + at;
		done += piece;
	}
	return -1;
}

ssize_t
bytes_mismatch(const void *one, const void *other, size_t length)
{
	const unsigned char *a = one;
	const unsigned char *b = other;

	if (memcmp(a, b, length) == 0)
		return -1;
	for (size_t i = 0; i < length; i++)
		if (a[i] != b[i])
			return (ssize_t)i;
	return -1;
}
