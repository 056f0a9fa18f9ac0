/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/wrapped_text.h"

#include <string.h>

int
wrapped_text_print(FILE *out, const char *text, int column, int indent)
{
	for (const char *word = text; *word; word += strspn(word, " ")) {
		const int length = (int)strcspn(word, " ");

		if (word != text && column + 1 + length > WRAPPED_TEXT_COLUMNS)
			column = fprintf(out, "\n%*s", indent, "") - 1;
		else if (word != text)
			column += fprintf(out, " ");
		column += fprintf(out, "%.*s", length, word);
		word += length;
	}
	return column;
}
