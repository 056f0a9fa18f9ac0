/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/config/command_line.h"

#include "server/config/config_file.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/option_getopt.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FIELD(name_) offsetof(struct command_line, name_)

const struct option_row command_option_rows[] = {
	{
		.name = "export",
		.letter = 'e',
		.type = OPTION_LIST,
		.field = FIELD(exports),
		.arg = "NAME=PATH[,OPTION=VALUE...]",
		.help = "serve the image PATH as the export NAME; may be repeated",
	},
	{
		.name = "config",
		.letter = 'c',
		.type = OPTION_STRING,
		.field = FIELD(config),
		.arg = "FILE",
		.help = "read this configuration file; see nbdloopd.conf(5)",
	},
	{
		.name = "run",
		.type = OPTION_STRING,
		.field = FIELD(run),
		.arg = "COMMAND",
		.help = "run this command of the shell, with $uri, and end with its status",
	},
	OPTION_SWITCH("fork", 0, FIELD(fork), "serve in the background: return when ready"),
	OPTION_SWITCH("check-config", 0, FIELD(check_config),
		      "check the options and the configuration file, and exit"),
	OPTION_SWITCH("help", 'h', FIELD(help), "show this list and exit"),
	OPTION_SWITCH("version", 'V', FIELD(version), "show the version and exit"),
	{.name = NULL},
};

/* ---- parsing */

/* Puts the text `before` an error's sentence, if there is one. Returns r. */
static int
add_prefix(char **error, const char *before, int r)
{
	char *CLEANUP_FREE sentence = *error;

	*error = NULL;
	return sentence ? error_set(error, r, "%s%s", before, sentence) : r;
}

/* Sets the options of the command itself in `own`, or those of the configuration in `config`. */
static int
command_line_take(const struct command_line *line, struct command_line *own,
		  struct server_config *config, char **error)
{
	const struct option_row *row;
	struct option_getopt getopt;
	const char *value;
	int found, r = 0;

	option_getopt_init(&getopt, "nbdloopd");
	option_getopt_add(&getopt, command_option_rows);
	option_getopt_add(&getopt, server_option_rows);
	option_getopt_add(&getopt, export_default_rows());
	while ((found = option_getopt_next(&getopt, line->argc, line->argv, &row, &value, error)) >
	       0) {
		bool is_own = option_find(command_option_rows, row->name) == row;

		if (is_own && own)
			r = option_set(command_option_rows, own, row->name, value, error);
		else if (!is_own && config)
			r = config_set(config, row->name, value, error);
		if (r < 0)
			return add_prefix(error, "--", r);
	}
	return found;
}

static int
command_line_check(struct command_line *line, char **error)
{
	int r = command_line_take(line, line, NULL, error);

	if (r == 0 && line->run && line->fork)
		r = error_set(error, -EINVAL,
			      "--run and --fork exclude each other: --run waits for its command");
	if (r < 0 || optind == line->argc)
		return r;
	line->image = line->argv[optind];
	if (optind + 1 < line->argc)
		return error_set(
			error, -EINVAL,
			"one image too many: %s; to serve several images, give each a name: --export NAME=PATH",
			line->argv[optind + 1]);
	return 0;
}

int
command_line_parse(struct command_line *line, int argc, char **argv, char **error)
{
	int r;

	*line = (struct command_line){.argc = argc, .argv = argv};
	*error = NULL;
	r = options_init(command_option_rows, line);
	if (r == 0)
		r = command_line_check(line, error);
	if (r < 0)
		command_line_fini(line);
	return r;
}

void
command_line_fini(struct command_line *line)
{
	free(steal_pointer(&line->private_socket));
	options_free(command_option_rows, line);
}

/* ---- exports */

/* Cuts the next part off *rest, up to a single comma; a double one becomes a comma of the part.
 * NULL: there is none. */
static char *
next_part(char **rest)
{
	char *part = *rest, *to = part;

	if (!part)
		return NULL;
	*rest = NULL;
	for (const char *from = part; *from; from++) {
		if (*from == ',' && from[1] == ',')
			from++;
		else if (*from == ',') {
			*rest = part + (from - part) + 1;
			break;
		}
		*to++ = *from;
	}
	*to = '\0';
	return part;
}

static int
set_part(struct export_config *export, char *part, char **error)
{
	struct near_word near = {.word = part};
	char *equals = strchr(part, '='), hint[NEAR_WORD_HINT];
	int r;

	if (!equals)
		return error_set(
			error, -EINVAL,
			"\"%s\" is not OPTION=VALUE; if it belongs to the path, write its comma twice",
			part);
	*equals = '\0';
	r = option_set(export_option_rows(), export, part, equals + 1, error);
	if (r != -ENOENT)
		return r;
	options_offer_names(export_option_rows(), &near);
	return error_set(error, -EINVAL, "unknown option %s%s%s", part, near_word_hint(&near, hint),
			 near.found ? "" : "; if it belongs to the path, write its comma twice");
}

static int
add_parts(struct server_config *config, const char *name, char *rest, char **error)
{
	struct export_config *export;
	char *part;
	int r = config_add_export(config, name, &export, error);

	if (r == 0)
		r = option_set(export_option_rows(), export, "file", next_part(&rest), error);
	while (r == 0 && (part = next_part(&rest)) != NULL)
		r = set_part(export, part, error);
	return r;
}

int
command_line_add_export(struct server_config *config, const char *text, char **error)
{
	char *CLEANUP_FREE copy = strdup(text);
	char *CLEANUP_FREE before = NULL;
	char *equals = copy ? strchr(copy, '=') : NULL;
	int r;

	if (!copy || asprintf(&before, "--export %s: ", text) < 0) {
		before = NULL;
		return -ENOMEM;
	}
	if (!equals)
		return error_set(error, -EINVAL,
				 "%smust be NAME=PATH; further options follow after commas",
				 before);
	*equals = '\0';
	r = add_parts(config, copy, equals + 1, error);
	return r < 0 ? add_prefix(error, before, r) : 0;
}

static int
add_exports(const struct command_line *line, struct server_config *config, char **error)
{
	struct export_config *export;
	int r = 0;

	if (line->image) {
		r = config_add_export(config, "", &export, error);
		if (r == 0)
			r = option_set(export_option_rows(), export, "file", line->image, error);
	}
	for (char **text = line->exports; r == 0 && text && *text; text++)
		r = command_line_add_export(config, *text, error);
	return r;
}

int
command_line_configure(const struct command_line *line, struct server_config *config, char **error)
{
	struct config_file CONFIG_FILE_CLEANUP file = {0};
	int r;

	*error = NULL;
	r = config_init(config);
	if (r < 0)
		return r;
	if (line->config)
		r = config_file_read(&file, line->config, error);
	/* First the defaults of exports, from the file and the command line. */
	if (r == 0)
		r = config_file_apply_server(&file, config, error);
	if (r == 0)
		r = command_line_take(line, NULL, config, error);
	for (char **directory = config->include; r == 0 && directory && *directory; directory++)
		r = config_file_include(&file, *directory, error);
	if (r == 0 && line->private_socket)
		r = config_set(config, "unix", line->private_socket, error);
	if (r == 0 && line->detached)
		config->log = LOG_TO_SYSLOG;
	if (r == 0)
		r = config_file_apply_exports(&file, config, error);
	if (r == 0)
		r = add_exports(line, config, error);
	if (r == 0) {
		r = config_check(config, config_proofs(config), error);
		if (r < 0)
			config_file_blame(&file, config, r, error);
	}
	if (r < 0)
		config_fini(config);
	return r;
}

void
command_line_print_help(void)
{
	printf("Usage: nbdloopd [OPTION]... IMAGE\n"
	       "       nbdloopd [OPTION]... --export NAME=PATH[,OPTION=VALUE...] ...\n"
	       "       nbdloopd [OPTION]... --config FILE\n"
	       "Serves disk images over NBD, with direct asynchronous I/O.\n\n");
	options_print_help(stdout, command_option_rows, true);
	printf("\nOptions of the server:\n");
	options_print_help(stdout, server_option_rows, true);
	printf("\nOptions of IMAGE, defaults of all exports, and options in --export (such as read-only=on):\n");
	options_print_help(stdout, export_default_rows(), true);
	printf("\nThe manual, nbdloopd(8), explains the options.\n");
}
