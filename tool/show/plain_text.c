/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/show/plain_text.h"

#include <glib.h>

char *
plain_text(const char *text, bool raw)
{
	GString *plain = g_string_new(NULL);

	for (; *text; text++) {
		unsigned char byte = (unsigned char)*text;

		if (byte < ' ' || byte == 0x7f || (raw && (byte == ' ' || byte == '\\')))
			g_string_append_printf(plain, "\\x%02x", byte);
		else
			g_string_append_c(plain, *text);
	}
	return g_string_free(plain, FALSE);
}
