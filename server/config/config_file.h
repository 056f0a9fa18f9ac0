/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration file: sections of lines "option = value".
 *
 *	# a comment
 *	[server]
 *	unix = /run/nbdloopd.sock
 *	[export debian]
 *	file = /srv/debian.img
 */
#ifndef SERVER_CONFIG_CONFIG_FILE_H
#define SERVER_CONFIG_CONFIG_FILE_H

#include "server/config/server_config.h"

struct config_line {
	unsigned int number;
	char *name, *value; /* in the file's text; of a section: its name, and NULL */
};

struct config_file {
	const char *path;
	char *text;
	size_t size; /* of the text, bytes */
	struct config_line *lines;
	size_t count;
};

#define CONFIG_FILE_CLEANUP __attribute__((cleanup(config_file_fini)))

/* Reads the file's lines. This and the next two functions return 0, or -errno with *error a
 * sentence that names the line (caller frees). */
int
config_file_read(struct config_file *file, const char *path, char **error);

/* Sets the options in the sections [server]. */
int
config_file_apply_server(const struct config_file *file, struct server_config *config,
			 char **error);

/* Adds the exports of the sections [export NAME]. */
int
config_file_apply_exports(const struct config_file *file, struct server_config *config,
			  char **error);

void
config_file_fini(struct config_file *file);

#endif
