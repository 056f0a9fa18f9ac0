/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/access/rule_name.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *
rule_name_encode(const char *kind, const char *name)
{
	size_t before = strlen(kind) + 1;
	char *text = malloc(before + 3 * strlen(name) + 1), *to;

	if (!text)
		return NULL;
	to = text + sprintf(text, "%s:", kind);
	for (; *name; name++) {
		unsigned char byte = (unsigned char)*name;

		/* Bytes of characters outside of ASCII are kept: names may be in any language. */
		if (byte > ' ' && byte != 0x7f && byte != ',' && byte != '%')
			*to++ = *name;
		else
			to += sprintf(to, "%%%02X", (unsigned char)*name);
	}
	*to = '\0';
	return text;
}

/* -1: not a hexadecimal digit. */
static int
hex_digit_value(char digit)
{
	static const char digits[] = "0123456789abcdef0123456789ABCDEF";
	const char *found = digit ? strchr(digits, digit) : NULL;

	return found ? (int)(found - digits) % 16 : -1;
}

int
rule_name_decode(char *name)
{
	char *to = name;

	for (const char *from = name; *from; from++) {
		int high, low;

		if (*from != '%') {
			*to++ = *from;
			continue;
		}
		high = hex_digit_value(from[1]);
		low = high < 0 ? -1 : hex_digit_value(from[2]);
		if (low < 0 || high + low == 0)
			return -EINVAL;
		*to++ = (char)(high * 16 + low);
		from += 2;
	}
	*to = '\0';
	return 0;
}
