/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the options of option tables on a command line, with getopt_long(), and explains errors.
 */
#ifndef COMMON_OPTION_GETOPT_H
#define COMMON_OPTION_GETOPT_H

#include "common/option_row.h"

#include <getopt.h>

/* The most rows of all added tables together. */
#define OPTION_GETOPT_MAX 128

/* Private. */
struct option_getopt {
	const char *command;
	const struct option_row *rows[OPTION_GETOPT_MAX];
	struct option options[OPTION_GETOPT_MAX + 1]; /* .val: 256 + the row's number */
	char letters[2 * OPTION_GETOPT_MAX + 2];
	int count;
};

/* Begins a command line, without rows. Messages have `command` before "--help"; it is not copied.
 */
void
option_getopt_init(struct option_getopt *getopt, const char *command);

/* Adds a table, which is not copied. An option of a row without .arg takes no value. */
void
option_getopt_add(struct option_getopt *getopt, const struct option_row *rows);

/*
 * Finds the next option. Returns 1 with its row and its value (in argv, or the row's .alone); 0 if
 * only operands are left, from argv[optind] on; or -EINVAL with *error, a sentence that the caller
 * frees (NULL: out of memory).
 */
int
option_getopt_next(struct option_getopt *getopt, int argc, char **argv,
		   const struct option_row **row, const char **value, char **error);

#endif
