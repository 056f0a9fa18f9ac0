/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line, and the configuration that it makes together with a configuration file.
 */
#ifndef SERVER_CONFIG_COMMAND_LINE_H
#define SERVER_CONFIG_COMMAND_LINE_H

#include "server/config/server_config.h"

struct command_line {
	int argc;
	char **argv;    /* the options first, once they have been parsed */
	char *config;   /* the configuration file's path, or NULL */
	char **exports; /* as written */
	char *run;      /* a command, or NULL */
	unsigned int fork, check_config, help, version;
	const char *image; /* NULL: none; of argv */
	/* What the program decides about each configuration of this command line. */
	char *private_socket; /* an address for --run; NULL: the configuration has one */
	bool detached;        /* --fork gives standard error up, so messages go to the system log */
};

/* Options of the command line only. Their fields are offsets in struct command_line. */
extern const struct option_row command_option_rows[];

/* Returns 0, or -errno with *error a sentence (caller frees). argv must stay as long as *line. */
int
command_line_parse(struct command_line *line, int argc, char **argv, char **error);
void
command_line_fini(struct command_line *line);

/*
 * Makes the configuration of this command line; reads the configuration file each time. Returns 0,
 * or -errno with *error a sentence (caller frees) and nothing to free in *config.
 */
int
command_line_configure(const struct command_line *line, struct server_config *config, char **error);

/* Adds an export from the text NAME=PATH[,OPTION=VALUE...]. Returns 0, or -errno with *error a
 * sentence (caller frees). */
int
command_line_add_export(struct server_config *config, const char *text, char **error);

/* Prints the text of --help. */
void
command_line_print_help(void);

#endif
