/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The configuration file, and the files of the directories that it includes: sections of lines
 * "option = value".
 *
 *	# a comment
 *	[server]
 *	unix = /run/nbdloopd.sock
 *	[export debian]
 *	file = /srv/debian.img
 *
 * The lines of all files are one list. Messages about a line name its file and its number.
 */
#ifndef SERVER_CONFIG_CONFIG_FILE_H
#define SERVER_CONFIG_CONFIG_FILE_H

#include "server/config/server_config.h"

struct dirent;

struct config_line {
	const char *path; /* of the file */
	unsigned int number;
	char *name, *value; /* in the file's text; of a section: its name, and NULL */
};

/* Zeroed before the first file. */
struct config_file {
	struct config_line *lines;
	size_t count;
	char **texts; /* the files' paths and texts, which the lines point to */
	size_t text_count;
};

#define CONFIG_FILE_CLEANUP __attribute__((cleanup(config_file_fini)))

/* Adds the file's lines. This and the next functions return 0, or -errno with *error a sentence
 * that names the line (the caller frees it). */
int
config_file_read(struct config_file *file, const char *path, char **error);

/* Adds the lines of the directory's files, in the order of their names: of those that end with
 * ".conf", without hidden ones. They have only sections [export NAME]. */
int
config_file_include(struct config_file *file, const char *directory, char **error);

/* Returns whether config_file_include() reads this entry of the directory. For scandir(). */
int
config_file_is_included(const struct dirent *entry);

/* Sets the options in the sections [server]. */
int
config_file_apply_server(const struct config_file *file, struct server_config *config,
			 char **error);

/* Adds the exports of the sections [export NAME]. */
int
config_file_apply_exports(const struct config_file *file, struct server_config *config,
			  char **error);

/* Puts file and line before the sentence of config_check(), if a line is to blame: that of the
 * option with which the sentence begins, or the beginning of the export's section. Returns `r`. */
int
config_file_blame(const struct config_file *file, const struct server_config *config, int r,
		  char **error);

void
config_file_fini(struct config_file *file);

#endif
