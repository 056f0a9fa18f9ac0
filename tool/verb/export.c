/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop export: lists and changes the exports of a running nbdloopd, by its control socket.
 */
#include "tool/device/image_file.h"
#include "tool/failure.h"
#include "tool/show/export_columns.h"
#include "tool/show/output.h"
#include "tool/verb/served_export.h"
#include "tool/verb/verb.h"

#include "common/near_word.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct export_options {
	struct export_table_options table;
	struct export_settings settings;
};

#define FIELD(name_) offsetof(struct export_options, table.name_)

static const struct option_row export_option_rows[] = {
	OPTION_SWITCH("clients", 'c', FIELD(clients), "list: the connected clients"),
	OPTION_SWITCH("json", 'J', FIELD(json), "list: print the status of the server as JSON"),
	OPTION_SWITCH("noheadings", 'n', FIELD(noheadings), "list: print no headings"),
	OPTION_TEXT(
		"output", 'O', FIELD(output), "COLUMNS",
		"list: print these columns, separated by commas; with a leading +, add them to the default ones"),
	EXPORT_SETTING_ROWS(struct export_options, settings, "set: "),
	{.name = NULL},
};

/* ---- the actions; words: what follows the export */

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
export_list(const struct asked_server *server, const struct export_options *options, char **words,
	    GError **error)
{
	(void)words;
	return served_export_list(server, &options->table, error);
}

static bool
export_set(const struct asked_server *server, const struct export_options *options, char **words,
	   GError **error)
{
	(void)words;
	return served_export_set(server, &options->settings, error);
}

static bool
export_resize(const struct asked_server *server, const struct export_options *options, char **words,
	      GError **error)
{
	(void)options, (void)words;
	return served_export_resize(server, error);
}

static bool
export_remove(const struct asked_server *server, const struct export_options *options, char **words,
	      GError **error)
{
	json_auto_t *answer = served_export_ask(server, "remove", error);

	(void)options, (void)words;
	return answer != NULL;
}

static bool
export_disconnect(const struct asked_server *server, const struct export_options *options,
		  char **words, GError **error)
{
	g_autofree char *rules = g_strdelimit(g_strjoinv(",", words), " \t\n", ','),
			*request = g_strconcat("disconnect ", rules, NULL);
	/* Without a name, it is for all exports. */
	json_auto_t *answer = server->export ? served_export_ask(server, request, error)
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
	/* Before the error that may follow. */
	if (plain) {
		printf("%s\n", plain);
		fflush(stdout);
	}
	return answer && (failed == 0 || failure(error, EIO,
						 "not everything is as the configuration has "
						 "it: the log of the server says why"));
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
	struct near_word near = {.word = name};
	char hint[NEAR_WORD_HINT];

	for (size_t i = 0; i < G_N_ELEMENTS(actions); i++) {
		if (g_str_equal(actions[i].name, name))
			return &actions[i];
		near_word_offer(&near, actions[i].name);
	}
	return FAILURE_NULL(error, EINVAL,
			    "there is no action \"%s\"%s; nbdloop export --help lists them", name,
			    near_word_hint(&near, hint));
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

	if (!action)
		return false;
	if (words < action->least || (action->most >= 0 && words > action->most))
		return failure(error, EINVAL, "%s: must be nbdloop export %s %s",
			       words < action->least ? "a word is missing"
						     : "there is a word too many",
			       action->name, action->operands);
	if (!lists && (options->table.clients || options->table.json || options->table.noheadings ||
		       options->table.output))
		return failure(error, EINVAL,
			       "--clients, --json, --noheadings and --output are for list");
	if (action->run != export_set && export_settings_given(&options->settings))
		return failure(
			error, EINVAL,
			"limits, rules and --direct-io are for set; add takes OPTION=VALUE after "
			"the image");
	if ((action->run == export_set && !export_settings_check(&options->settings, error)) ||
	    !export_table_check(&options->table, error))
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
	.check = export_agree,
	.run = run_export,
};
