/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/config/command_line.h"

#include "server/config/config_file.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/option_getopt.h"

#include <assert.h>
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
		.manual =
			"Serve the image PATH as the export NAME.  Options of an image can follow\n"
			"the path: C<--export backup=/srv/b.img,read-only=on>.  I<--export> may\n"
			"be given several times.  Write a comma in the path or in a value twice.\n"
			"NAME can be empty; it can contain an equals sign only in a configuration\n"
			"file.\n",
	},
	{
		.name = "config",
		.letter = 'c',
		.type = OPTION_STRING,
		.field = FIELD(config),
		.arg = "FILE",
		.help = "read this configuration file; see nbdloopd.conf(5)",
		.manual =
			"Read this configuration file; see L<nbdloopd.conf(5)>.  Options on the\n"
			"command line override those in the section C<[server]> of the file;\n"
			"values of options that may be given several times are added to those of\n"
			"the file.\n",
	},
	OPTION_SWITCH("help", 'h', FIELD(help), "show this list and exit",
		      "List the options and exit.\n"),
	OPTION_SWITCH(
		"version", 'V', FIELD(version), "show the version and exit",
		"Print the version and whether the server has L</STATIC PROBES>, and exit.\n"),
	{.name = NULL},
};

struct setting {
	const struct option_row *row;
	const char *value;
	struct setting *next;
};

/* ---- parsing */

/* Puts the text `before` a sentence that is there already. */
static int
add_prefix(char **error, const char *before, int r)
{
	char *CLEANUP_FREE sentence = *error;

	*error = NULL;
	return sentence ? error_set(error, r, "%s%s", before, sentence) : r;
}

static int
take_option(struct command_line *line, const struct option_row *row, const char *value,
	    char **error)
{
	struct setting **end = &line->settings;
	int r;

	if (option_find(command_option_rows, row->name) == row) {
		r = option_set(command_option_rows, line, row->name, value, error);
		return r < 0 ? add_prefix(error, "--", r) : 0;
	}
	while (*end)
		end = &(*end)->next;
	*end = calloc(1, sizeof(**end));
	if (!*end)
		return -ENOMEM;
	**end = (struct setting){.row = row, .value = value};
	return 0;
}

static int
take_options(struct command_line *line, int argc, char **argv, char **error)
{
	const struct option_row *row;
	struct option_getopt getopt;
	const char *value;
	int r;

	option_getopt_init(&getopt, "nbdloopd");
	option_getopt_add(&getopt, command_option_rows);
	option_getopt_add(&getopt, server_option_rows);
	option_getopt_add(&getopt, export_option_rows);
	option_getopt_add(&getopt, server_image_rows());
	while ((r = option_getopt_next(&getopt, argc, argv, &row, &value, error)) > 0) {
		r = take_option(line, row, value, error);
		if (r < 0)
			return r;
	}
	return r;
}

static int
parse(struct command_line *line, int argc, char **argv, char **error)
{
	int r = take_options(line, argc, argv, error);

	if (r < 0 || optind == argc)
		return r;
	line->image = argv[optind];
	if (optind + 1 < argc)
		return error_set(
			error, -EINVAL,
			"there is one image too many: %s; to serve several, give each a name: --export NAME=PATH",
			argv[optind + 1]);
	return 0;
}

int
command_line_parse(struct command_line *line, int argc, char **argv, char **error)
{
	int r;

	*line = (struct command_line){0};
	*error = NULL;
	r = options_init(command_option_rows, line);
	if (r == 0)
		r = parse(line, argc, argv, error);
	if (r < 0)
		command_line_fini(line);
	return r;
}

void
command_line_fini(struct command_line *line)
{
	while (line->settings) {
		struct setting *setting = line->settings;

		line->settings = setting->next;
		free(setting);
	}
	options_free(command_option_rows, line);
}

/* ---- exports */

/* Cuts the next part off *rest, up to a comma that stands alone; two of them become one. NULL: no
 * more. */
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
	char *equals = strchr(part, '=');
	int r;

	if (!equals)
		return error_set(
			error, -EINVAL,
			"\"%s\" is not OPTION=VALUE; if it belongs to the path, write its comma twice",
			part);
	*equals = '\0';
	r = export_set(export, part, equals + 1, error);
	if (r == -ENOENT)
		return error_set(
			error, -EINVAL,
			"unknown option %s; if it belongs to the path, write its comma twice",
			part);
	return r;
}

static int
add_parts(struct server_config *config, const char *name, char *rest, char **error)
{
	struct export_config *export;
	char *part;
	int r = config_add_export(config, name, &export, error);

	if (r == 0)
		r = export_set(export, "file", next_part(&rest), error);
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
				 "%smust be NAME=PATH, with further options behind commas", before);
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
			r = export_set(export, "file", line->image, error);
	}
	for (char **text = line->exports; r == 0 && text && *text; text++)
		r = command_line_add_export(config, *text, error);
	return r;
}

static int
apply_settings(const struct command_line *line, struct server_config *config, char **error)
{
	int r = 0;

	for (const struct setting *setting = line->settings; r == 0 && setting;
	     setting = setting->next) {
		r = config_set(config, setting->row->name, setting->value, error);
		if (r < 0)
			add_prefix(error, "--", r);
	}
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
	/* An export begins with the defaults of both. */
	if (r == 0)
		r = config_file_apply_server(&file, config, error);
	if (r == 0)
		r = apply_settings(line, config, error);
	if (r == 0)
		r = config_file_apply_exports(&file, config, error);
	if (r == 0)
		r = add_exports(line, config, error);
	if (r == 0)
		r = config_check(config, error);
	if (r < 0)
		config_fini(config);
	return r;
}

void
command_line_print_help(void)
{
	/* Of an image, in one table. */
	struct option_row rows[64] = {{.name = NULL}};
	unsigned int count = 0;

	for (const struct option_row *row = export_option_rows; row->name; row++)
		rows[count++] = *row;
	for (const struct option_row *row = server_image_rows(); row->name; row++)
		rows[count++] = *row;
	assert(count < 64);
	printf("Usage: nbdloopd [OPTION]... IMAGE\n"
	       "       nbdloopd [OPTION]... --export NAME=PATH[,OPTION=VALUE...] ...\n"
	       "       nbdloopd [OPTION]... --config FILE\n"
	       "Serves disk images over NBD, with direct asynchronous I/O.\n\n");
	options_print_switches(stdout, command_option_rows);
	printf("\nOptions of the server:\n");
	options_print_switches(stdout, server_option_rows);
	printf("\nOptions of IMAGE, defaults of all exports, and options in --export (such as read-only=on):\n");
	options_print_switches(stdout, rows);
	printf("\nThe manual, nbdloopd(8), explains the options.\n");
}
