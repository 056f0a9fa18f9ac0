/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * JSON as text on a stream.  Building and reading it is json-glib's.
 */
#ifndef TOOL_SHOW_JSON_TEXT_H
#define TOOL_SHOW_JSON_TEXT_H

#include <json-glib/json-glib.h>
#include <stdbool.h>
#include <stdio.h>

/* With a newline at its end; `pretty`: a line for each member, indented as losetup does, or else
 * all on one line. */
void
json_text_print(FILE *out, JsonObject *object, bool pretty);

#endif
