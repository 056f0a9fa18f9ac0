/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line, and with it the configuration file that it names: from both, a configuration.
 */
#ifndef SERVER_CONFIG_COMMAND_LINE_H
#define SERVER_CONFIG_COMMAND_LINE_H

#include "server/config/server_config.h"

struct setting; /* an option and its value, in the order of the command line */

struct command_line {
	char *config;   /* the configuration file's path, or NULL */
	char **exports; /* as written */
	unsigned int help, version;
	const char *image; /* NULL: none; of argv */
	struct setting *settings;
};

/* What can be said on the command line only. Their fields are offsets in struct command_line. */
extern const struct option_row command_option_rows[];

/* Returns 0, or -errno with *error a sentence (caller frees).  Keep argv as long as the result. */
int
command_line_parse(struct command_line *line, int argc, char **argv, char **error);
void
command_line_fini(struct command_line *line);

/*
 * The configuration that this command line means; reads the configuration file anew each time.
 * Returns 0, or -errno with *error a sentence (caller frees); then there is nothing to free in
 * *config.
 */
int
command_line_configure(const struct command_line *line, struct server_config *config, char **error);

/* Adds an export from the text NAME=PATH[,OPTION=VALUE...].  Returns 0, or -errno with *error a
 * sentence (caller frees). */
int
command_line_add_export(struct server_config *config, const char *text, char **error);

/* What --help says. */
void
command_line_print_help(void);

#endif
