/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exports of a running server, as the verbs show and change them: what nbdloop export does, and
 * what list, status, set, resize and check do with an export in place of a device.
 */
#ifndef TOOL_VERB_SERVED_EXPORT_H
#define TOOL_VERB_SERVED_EXPORT_H

#include "tool/verb/asked_server.h"

#include "common/option_row.h"

#include <stddef.h>

/* ---- requests */

/* Sends "REQUEST export=NAME", or REQUEST for the only export.  Returns the answer, which the
 * caller frees (json_decref); NULL with an error, which names the command that lists the exports if
 * there is no such one. */
json_t *
served_export_ask(const struct asked_server *server, const char *request, GError **error);

/* The status of the server, with this export, or the only one, alone in its array "exports", and
 * its clients in "connections".  Caller frees. */
json_t *
served_export_status(const struct asked_server *server, GError **error);

/* The same until `deadline` (g_get_monotonic_time()). */
json_t *
served_export_status_until(const struct asked_server *server, gint64 deadline, GError **error);

/* Fails with an error that lists the exports in the status of a server, which is asked for the only
 * one. */
bool
served_export_not_one(const char *socket, json_t *status, GError **error);

/* ---- list */

struct export_table_options {
	unsigned int clients, json, noheadings; /* off, on */
	char *output;                           /* names of columns, or NULL */
};

/* Whether the options agree, and all columns exist. */
bool
export_table_check(const struct export_table_options *options, GError **error);

/* Prints a table of the exports, or of the clients: all of the server, or those of the export. */
bool
served_export_list(const struct asked_server *server, const struct export_table_options *options,
		   GError **error);

/* ---- set and resize */

/* NULL: it stays as it is. */
struct export_settings {
	char *direct_io;
	char *allow, *allow_write;
	char *iops, *bandwidth, *connections;
	char *client_iops, *client_bandwidth, *client_connections;
};

/* Their rows, in the table of a verb whose options have them as `member`. `for_`: what their help
 * begins with. */
#define EXPORT_SETTING_ROWS(type_, member, for_)                                                   \
	{                                                                                          \
		.name = "direct-io",                                                               \
		.type = OPTION_STRING,                                                             \
		.field = offsetof(type_, member.direct_io),                                        \
		.alone = "on",                                                                     \
		.arg = "on|off",                                                                   \
		.help = for_ "switch direct I/O to the image on or off",                           \
	},                                                                                         \
		OPTION_TEXT("allow", 0, offsetof(type_, member.allow), "RULES",                    \
			    for_ "who can connect"),                                               \
		OPTION_TEXT("allow-write", 0, offsetof(type_, member.allow_write), "RULES",        \
			    for_ "who can write"),                                                 \
		OPTION_TEXT("iops-limit", 0, offsetof(type_, member.iops), "LIMIT",                \
			    for_ "operations per second; 0 means no limit"),                       \
		OPTION_TEXT("bandwidth-limit", 0, offsetof(type_, member.bandwidth), "LIMIT",      \
			    for_ "bytes per second, such as 100M; 0 means no limit"),              \
		OPTION_TEXT("connections-limit", 0, offsetof(type_, member.connections), "N",      \
			    for_ "the number of connections"),                                     \
		OPTION_TEXT("client-iops-limit", 0, offsetof(type_, member.client_iops), "LIMIT",  \
			    for_ "operations per second of each client"),                          \
		OPTION_TEXT("client-bandwidth-limit", 0, offsetof(type_, member.client_bandwidth), \
			    "LIMIT", for_ "bytes per second of each client"),                      \
		OPTION_TEXT("client-connections-limit", 0,                                         \
			    offsetof(type_, member.client_connections), "N",                       \
			    for_ "connections of each client")

/* Returns whether one of them is given. */
bool
export_settings_given(const struct export_settings *settings);

/* The name of the first that only exports of an nbdloopd have, and devices do not; NULL: there is
 * none. */
const char *
export_settings_not_of_devices(const struct export_settings *settings);

/* Whether one is given, and --direct-io is "on" or "off". */
bool
export_settings_check(const struct export_settings *settings, GError **error);

/* The value of a setting as a request has it: a word, with commas between its parts.  Caller
 * frees. */
char *
export_setting_word(const char *value);

/* Changes direct I/O, then rules, then limits, and prints each change. */
bool
served_export_set(const struct asked_server *server, const struct export_settings *settings,
		  GError **error);

/* Has the server read the size of the image again, and prints it. */
bool
served_export_resize(const struct asked_server *server, GError **error);

#endif
