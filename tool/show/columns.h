/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The columns of the list of attached devices: those of losetup, with its names and JSON, and
 * those that only a device with a server has.  An unknown value is an empty cell, and null in
 * JSON.
 */
#ifndef TOOL_SHOW_COLUMNS_H
#define TOOL_SHOW_COLUMNS_H

#include "tool/show/listing.h"

#include <stdio.h>

enum {
	COLUMNS_NO_HEADINGS = 1,
	COLUMNS_RAW = 2, /* one space between cells, and \x20 for a space in them */
};

/* Selections: arrays of const struct column *, in their order.  Caller frees (g_ptr_array_unref).
 */
GPtrArray *
columns_default(void);
GPtrArray *
columns_all(void);

/* The columns of "NAME,OFFSET", in upper or lower case; after a plus sign, the default ones and
 * these.  NULL: *error names the first that doesn't exist. */
GPtrArray *
columns_parse(const char *names, GError **error);

/* Prints a line for each listing (struct listing *), after the headings; nothing if there is none.
 * `flags` are COLUMNS_*. */
void
columns_print(FILE *out, const GPtrArray *columns, const GPtrArray *listings, unsigned int flags);

/* {"nbddevices": [{"name": ...}]} */
void
columns_print_json(FILE *out, const GPtrArray *columns, const GPtrArray *listings);

/* The members of one of them. Caller frees (json_decref). */
json_t *
columns_object(const GPtrArray *columns, const struct listing *listing);

/* Prints the names and their meanings, for --help. */
void
columns_print_help(FILE *out);

#endif
