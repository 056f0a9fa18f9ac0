/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Parses sizes as people write them, and formats them.
 */
#include "common/unit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define SECTOR 512

/* Returns the factor that the suffix stands for, or 0 if there is no such suffix. */
static uint64_t
suffix_multiplier(const char *suffix)
{
	static const char letters[] = "kKmMgGtTpPeE";
	const char *letter, *rest;
	uint64_t base, multiplier = 1;

	if (strcmp(suffix, "") == 0 || strcmp(suffix, "b") == 0 || strcmp(suffix, "B") == 0)
		return 1;
	if (strcmp(suffix, "s") == 0 || strcmp(suffix, "S") == 0)
		return SECTOR;

	letter = strchr(letters, suffix[0]);
	if (!letter)
		return 0;
	rest = suffix + 1;
	if (strcmp(rest, "") == 0 || strcmp(rest, "i") == 0 || strcmp(rest, "iB") == 0)
		base = 1024;
	else if (strcmp(rest, "B") == 0)
		base = 1000;
	else
		return 0;

	for (int power = (int)(letter - letters) / 2 + 1; power > 0; power--)
		multiplier *= base;
	return multiplier;
}

static int
unit_digit(char digit, unsigned int base)
{
	if (digit >= '0' && digit <= '9')
		return digit - '0';
	if (base == 16 && digit >= 'a' && digit <= 'f')
		return digit - 'a' + 10;
	if (base == 16 && digit >= 'A' && digit <= 'F')
		return digit - 'A' + 10;
	return -1;
}

int
unit_parse_size(const char *text, uint64_t *bytes)
{
	unsigned int base = 10;
	uint64_t value = 0, multiplier;
	bool too_large = false;
	const char *digits;

	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
		base = 16;
		text += 2;
	}

	/* In base 16, the letters B and E are digits and never a suffix. */
	for (digits = text; unit_digit(*text, base) >= 0; text++) {
		unsigned int digit = (unsigned int)unit_digit(*text, base);

		if (value > ((uint64_t)INT64_MAX - digit) / base)
			too_large = true;
		else
			value = value * base + digit;
	}
	if (text == digits)
		return -EINVAL;
	multiplier = suffix_multiplier(text);
	if (!multiplier)
		return -EINVAL;
	if (too_large || value > (uint64_t)INT64_MAX / multiplier)
		return -ERANGE;

	*bytes = value * multiplier;
	return 0;
}

const char *
unit_format_size(uint64_t bytes, char text[UNIT_SIZE_TEXT])
{
	static const char suffixes[] = "kMGTPE";
	const char *suffix = "";

	for (const char *next = suffixes; *next && bytes && bytes % 1024 == 0; next++) {
		bytes /= 1024;
		suffix = next;
	}
	snprintf(text, UNIT_SIZE_TEXT, "%" PRIu64 "%.1s", bytes, suffix);
	return text;
}
