/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names that others have chosen, on a terminal or for a script.
 */
#ifndef TOOL_SHOW_PLAIN_TEXT_H
#define TOOL_SHOW_PLAIN_TEXT_H

#include <stdbool.h>

/* What a terminal or a script could take for something else becomes \xNN, as losetup writes it;
 * `raw`: blanks, too, so that it is one word.  Caller frees (g_free). */
char *
plain_text(const char *text, bool raw);

#endif
