/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The columns of the tables of an nbdloopd's exports and clients, whose facts are members of its
 * status (nbdloopd-control(7)). An unknown value is an empty cell.
 */
#ifndef TOOL_SHOW_EXPORT_COLUMNS_H
#define TOOL_SHOW_EXPORT_COLUMNS_H

#include <glib.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum export_table {
	EXPORT_TABLE_EXPORTS, /* of "exports" in the status */
	EXPORT_TABLE_CLIENTS, /* of "connections" */
};

/* The columns of "NAME,SIZE", in upper or lower case; after a plus sign, the default ones and
 * these; NULL: the default ones. Caller frees (g_ptr_array_unref); NULL: *error names the first
 * that does not exist. */
GPtrArray *
export_columns_parse(enum export_table table, const char *names, GError **error);

/* Prints a line for each object of an array, after the headings; nothing if there is none. */
void
export_columns_print(FILE *out, const GPtrArray *columns, json_t *objects, bool headings);

/* Prints the names of all columns and their meanings, for --help. */
void
export_columns_print_help(FILE *out);

/* Limits of an export, as options of nbdloopd: "iops-limit=100,read:50 connections-limit=3"; empty
 * without a limit, NULL without limits. Caller frees (g_free). */
char *
export_limits_text(json_t *limits);

#endif
