/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/show/output.h"

char *
output_plain(const char *text, bool raw)
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

void
output_json(FILE *out, json_t *object, bool pretty)
{
	json_dumpf(object, out, pretty ? JSON_INDENT(3) : JSON_COMPACT);
	putc('\n', out);
}
