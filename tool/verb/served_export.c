/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/verb/served_export.h"

#include "tool/failure.h"
#include "tool/link/server_link.h"
#include "tool/show/export_columns.h"
#include "tool/show/output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- requests */

static bool
served_export_missing(const struct asked_server *server, GError **error)
{
	return failure(error, ENOENT,
		       "%s: there is no export \"%s\"; nbdloop export list %s shows all",
		       server->socket, server->export, server->socket);
}

#define NAMED_MAX 12 /* exports in an error */

bool
served_export_not_one(const char *socket, json_t *status, GError **error)
{
	g_autoptr(GString) names = g_string_new(NULL);
	json_t *export;
	size_t i, count = 0;

	json_array_foreach(json_object_get(status, "exports"), i, export)
	{
		const char *name = json_string_value(json_object_get(export, "name"));
		g_autofree char *plain = name ? output_plain(name, false) : NULL;

		if (!plain || json_object_get(export, "snapshot"))
			continue;
		if (count++ < NAMED_MAX)
			g_string_append_printf(names, "%s\"%s\"", names->len ? ", " : "", plain);
	}
	if (count == 0)
		return failure(error, EINVAL, "%s has no export", socket);
	if (count > NAMED_MAX)
		g_string_append_printf(names, " and %zu more (nbdloop export list %s)",
				       count - NAMED_MAX, socket);
	return failure(error, EINVAL, "%s has several exports: name one, as in %s:EXPORT: %s",
		       socket, socket, names->str);
}

static json_t *
find_named(json_t *exports, const char *name)
{
	json_t *export;
	size_t i;

	json_array_foreach(exports, i, export)
	{
		if (g_strcmp0(json_string_value(json_object_get(export, "name")), name) == 0)
			return export;
	}
	return NULL;
}

/* The server refuses a request, *why. If there is no such export, an error names the command that
 * lists the others; else it is the server's. */
static bool
explain_refusal(const struct asked_server *server, GError **why, GError **error)
{
	json_auto_t *status = server_link_ask(server->socket, "status", NULL);
	json_t *exports = json_object_get(status, "exports");

	if (status && server->export && !find_named(exports, server->export))
		return served_export_missing(server, error);
	if (status && !server->export && !server_link_export(status))
		return served_export_not_one(server->socket, status, error);
	return failure_pass(error, why);
}

json_t *
served_export_ask(const struct asked_server *server, const char *request, GError **error)
{
	g_autofree char *line = server->export
					? g_strconcat(request, " export=", server->export, NULL)
					: g_strdup(request);
	g_autoptr(GError) why = NULL;
	json_t *answer;

	answer = asked_server_ask(server, line, &why);
	if (!answer && failure_is(why, EINVAL))
		explain_refusal(server, &why, error);
	else if (!answer)
		failure_pass(error, &why);
	return answer;
}

/* Keeps the objects whose `member` is the name. */
static void
keep_named(json_t *array, const char *member, const char *name)
{
	for (size_t i = json_array_size(array); i-- > 0;) {
		json_t *object = json_array_get(array, i);

		if (g_strcmp0(json_string_value(json_object_get(object, member)), name) != 0)
			json_array_remove(array, i);
	}
}

static void
keep_export(json_t *status, const char *name)
{
	keep_named(json_object_get(status, "exports"), "name", name);
	keep_named(json_object_get(status, "connections"), "export", name);
}

json_t *
served_export_status(const struct asked_server *server, GError **error)
{
	return served_export_status_until(server, g_get_monotonic_time() + SERVER_LINK_PATIENCE,
					  error);
}

json_t *
served_export_status_until(const struct asked_server *server, gint64 deadline, GError **error)
{
	json_auto_t *status = server_link_ask_until(server->socket, "status", deadline, error);
	json_t *only = server_link_export(status);
	g_autofree char *name = g_strdup(
		server->export ?: json_string_value(json_object_get(only, "name")) ?: "");

	if (!status ||
	    (!server->export && !only && !served_export_not_one(server->socket, status, error)))
		return NULL;
	keep_export(status, name);
	if (json_array_size(json_object_get(status, "exports")) == 0 &&
	    !served_export_missing(server, error))
		return NULL;
	return json_incref(status);
}

/* ---- list */

static enum export_table
table_of(const struct export_table_options *options)
{
	return options->clients ? EXPORT_TABLE_CLIENTS : EXPORT_TABLE_EXPORTS;
}

bool
export_table_check(const struct export_table_options *options, GError **error)
{
	g_autoptr(GPtrArray) columns = NULL;

	if (options->json && (options->output || options->noheadings || options->clients))
		return failure(error, EINVAL,
			       "--json prints all: leave out --clients, --noheadings and --output");
	columns = export_columns_parse(table_of(options), options->output, error);
	return columns != NULL;
}

bool
served_export_list(const struct asked_server *server, const struct export_table_options *options,
		   GError **error)
{
	g_autoptr(GPtrArray) columns =
		export_columns_parse(table_of(options), options->output, error);
	json_auto_t *status = columns ? server_link_ask(server->socket, "status", error) : NULL;
	json_t *exports = json_object_get(status, "exports"),
	       *clients = json_object_get(status, "connections");

	if (!status)
		return false;
	if (server->export)
		keep_export(status, server->export);
	/* A removed export may still have clients. */
	if (server->export && json_array_size(exports) + json_array_size(clients) == 0)
		return served_export_missing(server, error);
	if (options->json)
		output_json(stdout, status, true);
	else
		export_columns_print(stdout, columns, options->clients ? clients : exports,
				     !options->noheadings);
	return true;
}

/* ---- set and resize */

/* Those of a kind are one request. */
static const struct setting {
	const char *name;
	size_t field;
	unsigned int kind;
	bool of_devices;
} settings[] = {
	{"direct-io", offsetof(struct export_settings, direct_io), 0, true},
	{"allow", offsetof(struct export_settings, allow), 1, false},
	{"allow-write", offsetof(struct export_settings, allow_write), 1, false},
	{"iops-limit", offsetof(struct export_settings, iops), 2, true},
	{"bandwidth-limit", offsetof(struct export_settings, bandwidth), 2, true},
	{"connections-limit", offsetof(struct export_settings, connections), 2, false},
	{"client-iops-limit", offsetof(struct export_settings, client_iops), 2, false},
	{"client-bandwidth-limit", offsetof(struct export_settings, client_bandwidth), 2, false},
	{"client-connections-limit", offsetof(struct export_settings, client_connections), 2,
	 false},
};

#define SETTING_KINDS 3

static const char *
setting_value(const struct export_settings *given, const struct setting *setting)
{
	return *(char *const *)((const char *)given + setting->field);
}

bool
export_settings_given(const struct export_settings *given)
{
	for (size_t i = 0; i < G_N_ELEMENTS(settings); i++) {
		if (setting_value(given, &settings[i]))
			return true;
	}
	return false;
}

const char *
export_settings_not_of_devices(const struct export_settings *given)
{
	for (size_t i = 0; i < G_N_ELEMENTS(settings); i++) {
		if (!settings[i].of_devices && setting_value(given, &settings[i]))
			return settings[i].name;
	}
	return NULL;
}

bool
export_settings_check(const struct export_settings *given, GError **error)
{
	const char *direct_io = given->direct_io ? option_choice_name(given->direct_io) : "on";

	if (!export_settings_given(given))
		return failure(error, EINVAL, "a setting is missing, such as --iops-limit=500");
	return strcmp(direct_io, "on") == 0 || strcmp(direct_io, "off") == 0 ||
	       failure(error, EINVAL, "--direct-io=%s: must be on or off", given->direct_io);
}

char *
export_setting_word(const char *value)
{
	return g_strdelimit(g_strdup(option_choice_name(value)), " \t\n", ',');
}

/* Sends those of a kind, and prints them. */
static bool
served_export_set_kind(const struct asked_server *server, const struct export_settings *given,
		       unsigned int kind, GError **error)
{
	g_autofree char *name = output_plain(server->text, false);
	g_autoptr(GString) request = g_string_new("set"), lines = g_string_new(NULL);
	json_auto_t *answer = NULL;

	for (size_t i = 0; i < G_N_ELEMENTS(settings); i++) {
		const char *value = setting_value(given, &settings[i]);
		g_autofree char *word = value ? export_setting_word(value) : NULL;
		g_autofree char *plain = word ? output_plain(word, false) : NULL;

		if (!word || settings[i].kind != kind)
			continue;
		g_string_append_printf(request, " %s=%s", settings[i].name, word);
		g_string_append_printf(lines, "%s: %s %s\n", name,
				       kind == 0 ? "direct I/O" : settings[i].name, plain);
	}
	if (lines->len == 0)
		return true;
	answer = served_export_ask(server, request->str, error);
	if (answer)
		fputs(lines->str, stdout);
	return answer != NULL;
}

bool
served_export_set(const struct asked_server *server, const struct export_settings *given,
		  GError **error)
{
	bool done = true;

	for (unsigned int kind = 0; done && kind < SETTING_KINDS; kind++)
		done = served_export_set_kind(server, given, kind, error);
	return done;
}

bool
served_export_resize(const struct asked_server *server, GError **error)
{
	json_auto_t *answer = served_export_ask(server, "resize", error);

	if (answer)
		printf("%" JSON_INTEGER_FORMAT " bytes\n",
		       json_integer_value(json_object_get(answer, "size")));
	return answer != NULL;
}
