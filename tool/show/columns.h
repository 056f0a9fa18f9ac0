/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The columns of a list of attached devices: losetup's, with its names and JSON, and those that
 * only a device with a server has.  A cell whose value nobody tells is empty, and null in JSON.
 */
#ifndef TOOL_SHOW_COLUMNS_H
#define TOOL_SHOW_COLUMNS_H

#include "tool/show/listing.h"

#include <stdio.h>

struct column;

enum {
	COLUMNS_NO_HEADINGS = 1,
	COLUMNS_RAW = 2, /* one blank between cells, and none in them: \x20 */
};

/* Selections: arrays of const struct column *, in their order.  Caller frees (g_ptr_array_unref).
 */
GPtrArray *
columns_default(void);
GPtrArray *
columns_all(void);

/* Those of "NAME,OFFSET", in any case of letters; after a plus sign, the default ones and these.
 * NULL: *error names the first that doesn't exist. */
GPtrArray *
columns_parse(const char *names, GError **error);

/* A line for each listing (of struct listing *), below the headings; nothing at all where there is
 * none. `flags` are COLUMNS_*. */
void
columns_print(FILE *out, const GPtrArray *columns, const GPtrArray *listings, unsigned int flags);

/* {"nbddevices": [{"name": ...}]} */
void
columns_print_json(FILE *out, const GPtrArray *columns, const GPtrArray *listings);

/* The members of one of them. Caller frees (json_object_unref). */
JsonObject *
columns_object(const GPtrArray *columns, const struct listing *listing);

/* Names and what they mean, for --help. */
void
columns_print_help(FILE *out);

#endif
