/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/show/cells.h"

#include "tool/show/output.h"

char *
cells_text(json_t *value, bool raw)
{
	GString *all;
	json_t *element;
	size_t i;

	if (json_is_string(value))
		return output_plain(json_string_value(value), raw);
	if (json_is_boolean(value))
		return g_strdup(json_is_true(value) ? "1" : "0");
	if (json_is_integer(value))
		return g_strdup_printf("%" JSON_INTEGER_FORMAT, json_integer_value(value));
	all = g_string_new(NULL);
	json_array_foreach(value, i, element)
	{
		g_autofree char *text = cells_text(element, raw);

		g_string_append_printf(all, "%s%s", i ? "," : "", text);
	}
	return g_string_free(all, FALSE);
}

static void
cells_append(GString *line, const char *cell, int width, bool right)
{
	int blanks = width - (int)g_utf8_strlen(cell, -1);

	if (right)
		g_string_append_printf(line, "%*s", MAX(blanks, 0), "");
	g_string_append(line, cell);
	if (!right)
		g_string_append_printf(line, "%*s", MAX(blanks, 0), "");
}

void
cells_print(FILE *out, const GPtrArray *rows, const bool *right, bool raw)
{
	guint count = rows->len ? g_strv_length(rows->pdata[0]) : 0;
	g_autofree int *widths = g_new0(int, count);

	for (guint i = 0; i < rows->len && !raw; i++) {
		for (guint j = 0; j < count; j++)
			widths[j] = MAX(widths[j],
					(int)g_utf8_strlen(((char **)rows->pdata[i])[j], -1));
	}
	for (guint i = 0; i < rows->len; i++) {
		g_autoptr(GString) line = g_string_new(NULL);

		for (guint j = 0; j < count; j++) {
			if (j > 0)
				g_string_append_c(line, ' ');
			cells_append(line, ((char **)rows->pdata[i])[j], widths[j], right[j]);
		}
		if (!raw)
			g_strchomp(line->str);
		fprintf(out, "%s\n", line->str);
	}
}
