/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Output for people and scripts: names that others have chosen, and JSON.
 */
#ifndef TOOL_SHOW_OUTPUT_H
#define TOOL_SHOW_OUTPUT_H

#include <glib.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* The text with each byte that a terminal could take for a command as \xNN, as losetup writes it;
 * `raw`: spaces, too, so that it is one word.  Caller frees (g_free). */
char *
output_plain(const char *text, bool raw);

/* Prints an object and a newline; `pretty`: a line for each member, indented as losetup does it. */
void
output_json(FILE *out, json_t *object, bool pretty);

#endif
