/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Text for a terminal, broken into lines of at most WRAPPED_TEXT_COLUMNS.
 */
#ifndef COMMON_WRAPPED_TEXT_H
#define COMMON_WRAPPED_TEXT_H

#include <stdio.h>

#define WRAPPED_TEXT_COLUMNS 100

/* Prints the words of `text`, which single spaces separate, and no newline at the end.  `column` is
 * where the line is now (0: at its beginning); further lines begin with `indent` spaces. A word
 * that is longer than a line stays whole. Returns the new column. */
int
wrapped_text_print(FILE *out, const char *text, int column, int indent);

#endif
