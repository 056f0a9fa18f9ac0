/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tables of text: rows of cells in aligned columns.
 */
#ifndef TOOL_SHOW_CELLS_H
#define TOOL_SHOW_CELLS_H

#include <glib.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* The text of a value of JSON: nothing for null, 1 or 0 for booleans, a text as output_plain()
 * makes it, the elements of an array with commas between them. Caller frees (g_free). */
char *
cells_text(json_t *value, bool raw);

/* Prints rows (char **, NULL after the last cell), which all have the same number of cells. `right`
 * says for each column whether it is aligned to the right, as numbers are. `raw`: one space between
 * cells, without alignment. */
void
cells_print(FILE *out, const GPtrArray *rows, const bool *right, bool raw);

#endif
