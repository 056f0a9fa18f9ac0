/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of a command line, from rows: getopt_long() finds them, and one sentence says what is
 * wrong with one that it does not find.
 */
#ifndef COMMON_OPTION_GETOPT_H
#define COMMON_OPTION_GETOPT_H

#include "common/option_row.h"

#include <getopt.h>

/* Rows of all tables that are added. */
#define OPTION_GETOPT_MAX 128

/* Private. */
struct option_getopt {
	const char *command;
	const struct option_row *rows[OPTION_GETOPT_MAX];
	struct option options[OPTION_GETOPT_MAX + 1]; /* .val: 256 + the row's number */
	char letters[2 * OPTION_GETOPT_MAX + 2];
	int count;
};

/* Begins with a command line and no rows.  `command`, which must stay: the text before "--help" in
 * messages. */
void
option_getopt_init(struct option_getopt *getopt, const char *command);

/* Adds a table, which must stay. An option of a row without .arg takes no value. */
void
option_getopt_add(struct option_getopt *getopt, const struct option_row *rows);

/*
 * Finds the next option.  Returns 1 with its row and its value (in argv, or the row's .alone); 0
 * when only operands are left, from argv[optind] on; or -EINVAL with *error a sentence that the
 * caller frees (NULL: out of memory).
 */
int
option_getopt_next(struct option_getopt *getopt, int argc, char **argv,
		   const struct option_row **row, const char **value, char **error);

#endif
