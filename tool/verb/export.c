/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop export: lists and changes the exports of a running nbdloopd, by its control socket.
 */
#include "tool/device/image_file.h"
#include "tool/failure.h"
#include "tool/link/server_link.h"
#include "tool/show/export_columns.h"
#include "tool/show/output.h"
#include "tool/verb/asked_server.h"
#include "tool/verb/verb.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct export_options {
	unsigned int clients, json, noheadings; /* off, on */
	char *output;                           /* names of columns, or NULL */
	/* NULL: it stays as it is. */
	char *direct_io;
	char *allow, *allow_write;
	char *iops, *bandwidth, *connections;
	char *client_iops, *client_bandwidth, *client_connections;
};

#define FIELD(name_) offsetof(struct export_options, name_)

static const struct option_row export_option_rows[] = {
	OPTION_SWITCH("clients", 'c', FIELD(clients), "list: the connected clients"),
	OPTION_SWITCH("json", 'J', FIELD(json), "list: print the status of the server as JSON"),
	OPTION_SWITCH("noheadings", 'n', FIELD(noheadings), "list: print no headings"),
	OPTION_TEXT(
		"output", 'O', FIELD(output), "COLUMNS",
		"list: print these columns, separated by commas; with a leading +, add them to the default ones"),
	OPTION_TEXT("direct-io", 0, FIELD(direct_io), "on|off",
		    "set: switch direct I/O to the image"),
	OPTION_TEXT("allow", 0, FIELD(allow), "RULES", "set: who can connect"),
	OPTION_TEXT("allow-write", 0, FIELD(allow_write), "RULES", "set: who can write"),
	OPTION_TEXT("iops-limit", 0, FIELD(iops), "LIMIT",
		    "set: operations per second; 0 means no limit"),
	OPTION_TEXT("bandwidth-limit", 0, FIELD(bandwidth), "LIMIT",
		    "set: bytes per second, such as 100M"),
	OPTION_TEXT("connections-limit", 0, FIELD(connections), "N",
		    "set: the number of connections"),
	OPTION_TEXT("client-iops-limit", 0, FIELD(client_iops), "LIMIT",
		    "set: operations per second of each client"),
	OPTION_TEXT("client-bandwidth-limit", 0, FIELD(client_bandwidth), "LIMIT",
		    "set: bytes per second of each client"),
	OPTION_TEXT("client-connections-limit", 0, FIELD(client_connections), "N",
		    "set: connections of each client"),
	{.name = NULL},
};

/* The settings of set: those of a kind are one request. */
static const struct setting {
	const char *name;
	size_t field;
	unsigned int kind;
} settings[] = {
	{"direct-io", FIELD(direct_io), 0},
	{"allow", FIELD(allow), 1},
	{"allow-write", FIELD(allow_write), 1},
	{"iops-limit", FIELD(iops), 2},
	{"bandwidth-limit", FIELD(bandwidth), 2},
	{"connections-limit", FIELD(connections), 2},
	{"client-iops-limit", FIELD(client_iops), 2},
	{"client-bandwidth-limit", FIELD(client_bandwidth), 2},
	{"client-connections-limit", FIELD(client_connections), 2},
};

#define SETTING_KINDS 3

static const char *
setting_value(const struct export_options *options, const struct setting *setting)
{
	return *(char *const *)((const char *)options + setting->field);
}

static bool
sets_something(const struct export_options *options)
{
	for (size_t i = 0; i < G_N_ELEMENTS(settings); i++) {
		if (setting_value(options, &settings[i]))
			return true;
	}
	return false;
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
 * lists the others; else it is the server's. Returns NULL. */
static json_t *
explain_refusal(const struct asked_server *server, GError **why, GError **error)
{
	json_auto_t *status = server_link_ask(server->socket, "status", NULL);
	json_t *exports = json_object_get(status, "exports");

	if (status && server->export && !find_named(exports, server->export))
		return FAILURE_NULL(
			error, ENOENT,
			"%s: there is no export \"%s\"; nbdloop export list %s shows all",
			server->socket, server->export, server->socket);
	if (status && !server->export && !server_link_export(status))
		return FAILURE_NULL(error, EINVAL,
				    "%s has no export, or several: name one, as in %s:EXPORT",
				    server->socket, server->socket);
	failure_pass(error, why);
	return NULL;
}

/* Sends "REQUEST export=NAME"; NULL with an error. */
static json_t *
export_ask(const struct asked_server *server, const char *request, GError **error)
{
	g_autofree char *line = server->export
					? g_strconcat(request, " export=", server->export, NULL)
					: g_strdup(request);
	g_autoptr(GError) why = NULL;
	json_t *answer;

	answer = asked_server_ask(server, line, &why);
	if (answer || !failure_is(why, EINVAL)) {
		if (why)
			failure_pass(error, &why);
		return answer;
	}
	return explain_refusal(server, &why, error);
}

/* The same, if only success counts. */
static bool
export_change(const struct asked_server *server, const char *request, GError **error)
{
	json_auto_t *answer = export_ask(server, request, error);

	return answer != NULL;
}

/* ---- the actions; words: what follows the export */

/* Keeps the objects whose `member` is the name, or all. */
static void
keep_named(json_t *array, const char *member, const char *name)
{
	for (size_t i = json_array_size(array); name && i-- > 0;) {
		json_t *object = json_array_get(array, i);

		if (g_strcmp0(json_string_value(json_object_get(object, member)), name) != 0)
			json_array_remove(array, i);
	}
}

static enum export_table
table_of(const struct export_options *options)
{
	return options->clients ? EXPORT_TABLE_CLIENTS : EXPORT_TABLE_EXPORTS;
}

static bool
export_list(const struct asked_server *server, const struct export_options *options, char **words,
	    GError **error)
{
	g_autoptr(GPtrArray) columns =
		export_columns_parse(table_of(options), options->output, error);
	json_auto_t *status = columns ? server_link_ask(server->socket, "status", error) : NULL;
	json_t *exports = json_object_get(status, "exports"),
	       *clients = json_object_get(status, "connections");

	(void)words;
	if (!status)
		return false;
	keep_named(exports, "name", server->export);
	keep_named(clients, "export", server->export);
	/* A removed export may still have clients. */
	if (server->export && json_array_size(exports) + json_array_size(clients) == 0)
		return failure(error, ENOENT,
			       "%s: there is no export \"%s\"; nbdloop export list %s shows all",
			       server->socket, server->export, server->socket);
	if (options->json)
		output_json(stdout, status, true);
	else
		export_columns_print(stdout, columns, options->clients ? clients : exports,
				     !options->noheadings);
	return true;
}

/* A part of what --export takes: a comma in it is doubled. */
static void
append_part(GString *line, const char *part)
{
	for (; *part; part++) {
		if (*part == ',')
			g_string_append_c(line, ',');
		g_string_append_c(line, *part);
	}
}

static bool
export_add(const struct asked_server *server, const struct export_options *options, char **words,
	   GError **error)
{
	g_autoptr(GString) line = g_string_new("add ");
	/* The server has another working directory. */
	g_autofree char *image = image_file_is_here(words[0])
					 ? g_canonicalize_filename(words[0], NULL)
					 : g_strdup(words[0]);
	json_auto_t *answer = NULL;

	(void)options;
	g_string_append_printf(line, "%s=", server->export);
	append_part(line, image);
	for (char **word = words + 1; *word; word++) {
		g_string_append_c(line, ',');
		append_part(line, *word);
	}
	if (!request_line("IMAGE", line->str, error))
		return false;
	answer = asked_server_ask(server, line->str, error);
	return answer != NULL;
}

static bool
export_remove(const struct asked_server *server, const struct export_options *options, char **words,
	      GError **error)
{
	(void)options, (void)words;
	return export_change(server, "remove", error);
}

static bool
export_set(const struct asked_server *server, const struct export_options *options, char **words,
	   GError **error)
{
	bool done = true;

	(void)words;
	for (unsigned int kind = 0; done && kind < SETTING_KINDS; kind++) {
		g_autoptr(GString) line = g_string_new("set");

		for (size_t i = 0; i < G_N_ELEMENTS(settings); i++) {
			const char *value = setting_value(options, &settings[i]);
			/* The parts of a value have commas between them in a request. */
			g_autofree char *word =
				value ? g_strdelimit(g_strdup(option_choice_name(value)), " \t\n",
						     ',')
				      : NULL;

			if (word && settings[i].kind == kind)
				g_string_append_printf(line, " %s=%s", settings[i].name, word);
		}
		done = g_str_equal(line->str, "set") || export_change(server, line->str, error);
	}
	return done;
}

static bool
export_resize(const struct asked_server *server, const struct export_options *options, char **words,
	      GError **error)
{
	json_auto_t *answer = export_ask(server, "resize", error);

	(void)options, (void)words;
	if (answer)
		printf("%" JSON_INTEGER_FORMAT " bytes\n",
		       json_integer_value(json_object_get(answer, "size")));
	return answer != NULL;
}

static bool
export_disconnect(const struct asked_server *server, const struct export_options *options,
		  char **words, GError **error)
{
	g_autofree char *rules = g_strdelimit(g_strjoinv(",", words), " \t\n", ','),
			*request = g_strconcat("disconnect ", rules, NULL);
	/* Without a name, it is for all exports. */
	json_auto_t *answer = server->export ? export_ask(server, request, error)
					     : asked_server_ask(server, request, error);
	json_int_t count = json_integer_value(json_object_get(answer, "disconnected"));

	(void)options;
	if (answer)
		printf("%" JSON_INTEGER_FORMAT " connection%s ended\n", count,
		       count == 1 ? "" : "s");
	return answer != NULL;
}

static bool
export_reload(const struct asked_server *server, const struct export_options *options, char **words,
	      GError **error)
{
	json_auto_t *answer = asked_server_ask(server, "reload", error);
	json_int_t failed = json_integer_value(json_object_get(answer, "failed"));
	const char *text = json_string_value(json_object_get(answer, "reloaded"));
	g_autofree char *plain = text ? output_plain(text, false) : NULL;

	(void)options, (void)words;
	if (plain)
		printf("%s\n", plain);
	return answer && (failed == 0 || failure(error, EIO,
						 "not all exports are as the configuration has "
						 "them: the log of the server says why"));
}

static const struct export_action {
	const char *name;
	const char *operands; /* what follows the name */
	int least, most;      /* words after the name; most -1: no limit */
	bool named;           /* a SOCKET alone is not enough */
	const char *help;
	bool (*run)(const struct asked_server *server, const struct export_options *options,
		    char **words, GError **error);
} actions[] = {
	{"list", "[SOCKET|[SOCKET:]EXPORT]", 0, 1, false, "show the exports, or --clients",
	 export_list},
	{"add", "[SOCKET:]EXPORT IMAGE [OPTION=VALUE]...", 2, -1, true,
	 "serve one more image, until the server ends", export_add},
	{"remove", "[SOCKET:]EXPORT", 1, 1, true, "serve no new clients of it", export_remove},
	{"set", "OPTION... SOCKET|[SOCKET:]EXPORT", 1, 1, false,
	 "change limits, rules and direct I/O", export_set},
	{"resize", "SOCKET|[SOCKET:]EXPORT", 1, 1, false, "read the size of the image again",
	 export_resize},
	{"disconnect", "SOCKET|[SOCKET:]EXPORT RULE...", 2, -1, false,
	 "end the connections of these clients", export_disconnect},
	{"reload", "[SOCKET]", 0, 1, false, "have the server read its configuration again",
	 export_reload},
};

/* ---- the verb */

static const struct export_action *
find_action(const char *name, GError **error)
{
	for (size_t i = 0; i < G_N_ELEMENTS(actions); i++) {
		if (g_str_equal(actions[i].name, name))
			return &actions[i];
	}
	return FAILURE_NULL(error, EINVAL,
			    "there is no action \"%s\"; nbdloop export --help lists them", name);
}

/* Whether the action, its words and the options agree. */
static bool
export_agree(const struct verb_call *call, GError **error)
{
	const struct export_options *options = call->options;
	const struct export_action *action = find_action(call->operands[0], error);
	bool lists = action && action->run == export_list;
	int words = call->count - 1;
	const char *export = NULL;
	g_autofree char *socket = NULL;
	g_autoptr(GPtrArray) columns = NULL;

	if (!action)
		return false;
	if (words < action->least || (action->most >= 0 && words > action->most))
		return failure(error, EINVAL, "%s: must be nbdloop export %s %s",
			       words < action->least ? "a word is missing"
						     : "there is a word too many",
			       action->name, action->operands);
	if (!lists && (options->clients || options->json || options->noheadings || options->output))
		return failure(error, EINVAL,
			       "--clients, --json, --noheadings and --output are for list");
	if (sets_something(options) != (action->run == export_set))
		return failure(error, EINVAL,
			       sets_something(options)
				       ? "limits, rules and --direct-io are for set; add takes "
					 "OPTION=VALUE after the image"
				       : "a setting is missing, such as --iops-limit=500");
	if (options->direct_io && strcmp(option_choice_name(options->direct_io), "on") != 0 &&
	    strcmp(option_choice_name(options->direct_io), "off") != 0)
		return failure(error, EINVAL, "--direct-io=%s: must be on or off",
			       options->direct_io);
	if (options->json && (options->output || options->noheadings || options->clients))
		return failure(error, EINVAL,
			       "--json prints all: leave out --clients, --noheadings and --output");
	columns = export_columns_parse(table_of(options), options->output, error);
	if (!columns)
		return false;
	socket = words ? asked_server_socket(call->operands[1], &export) : NULL;
	if (action->named && !export)
		return failure(error, EINVAL, "%s: name an export, too: %s:EXPORT", socket, socket);
	if (action->run == export_reload && export)
		return failure(error, EINVAL, "reload is for all exports: name a SOCKET, not %s",
			       call->operands[1]);
	if (action->run == export_add && *export == ' ')
		return failure(error, EINVAL, "EXPORT \"%s\": a new name begins with no blank",
			       export);
	return action->run != export_add || !strchr(export, '=') ||
	       failure(error, EINVAL, "EXPORT \"%s\": a name has no equals sign", export);
}

static bool
run_export(const struct verb_call *call, GError **error)
{
	const struct export_action *action = find_action(call->operands[0], error);
	struct asked_server server;
	bool done =
		asked_server_find_export(&server, call->operands[1], error) &&
		action->run(&server, call->options, call->operands + MIN(call->count, 2), error);

	asked_server_fini(&server);
	return done;
}

static void
export_show_more(FILE *out)
{
	fprintf(out, "\nActions:\n");
	for (size_t i = 0; i < G_N_ELEMENTS(actions); i++)
		fprintf(out, "    %s %s\n        %s\n", actions[i].name, actions[i].operands,
			actions[i].help);
	export_columns_print_help(out);
}

const struct verb verb_export = {
	.name = "export",
	.help = "list and change the exports of a running nbdloopd",
	.synopsis = "[OPTION]... ACTION [SOCKET|[SOCKET:]EXPORT] [WORD]...",
	.summary =
		"Lists or changes the exports of the nbdloopd with the control socket SOCKET; without "
		"SOCKET, of nbdloopd.service.",
	.rows = export_option_rows,
	.show_more = export_show_more,
	.least = 1,
	.most = -1,
	.options_size = sizeof(struct export_options),
	.usage_status = 2,
	.check = export_agree,
	.run = run_export,
};
