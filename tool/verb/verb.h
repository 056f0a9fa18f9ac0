/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A verb of the command line, as "attach" in `nbdloop attach disk.img': what main() calls, and how
 * its options are parsed.
 */
#ifndef TOOL_VERB_VERB_H
#define TOOL_VERB_VERB_H

#include "common/option_row.h"

#include <stdbool.h>

/* argv[0] is the verb's own name.  Each returns the program's exit status. */
int
verb_adopt(int argc, char **argv);
int
verb_attach(int argc, char **argv);
int
verb_change(int argc, char **argv);
int
verb_detach(int argc, char **argv);
int
verb_list(int argc, char **argv);
int
verb_replace_server(int argc, char **argv);
int
verb_resize(int argc, char **argv);
int
verb_set(int argc, char **argv);
int
verb_start(int argc, char **argv);
int
verb_status(int argc, char **argv);
int
verb_stop(int argc, char **argv);

/* Of those that have no options. */
extern const struct option_row no_option_rows[];
/* Options of those that have some, for the manual, too; those of attach are in
 * tool/table/attach_options.h. */
extern const struct option_row detach_option_rows[];
extern const struct option_row list_option_rows[];
extern const struct option_row set_option_rows[];
extern const struct option_row start_option_rows[];
extern const struct option_row status_option_rows[];
extern const struct option_row stop_option_rows[];

/* What a verb's command line may be. */
struct verb_usage {
	const char *synopsis; /* what follows the verb: "[OPTION]... DEVICE" */
	const char *summary;  /* a sentence for --help */
	const struct option_row *rows;
	void (*show_more)(FILE *out); /* what --help ends with, or NULL */
	int least, most;              /* operands; most -1: no limit */
};

enum verb_parsed {
	VERB_PARSED,
	VERB_HELP_SHOWN, /* the program's status is 0 */
	VERB_REFUSED,    /* with a message; the program's status is 1, as losetup's */
};

/*
 * Parses a verb's command line into `config`, whose fields are the rows', set to their defaults
 * first.  The operands, *count of them, are in argv from its end on: *operands points there. Unless
 * VERB_PARSED is returned, there is nothing to free in `config`.
 */
enum verb_parsed
verb_parse(const struct verb_usage *usage, void *config, int argc, char **argv, char ***operands,
	   int *count);

/* The exit status of a verb whose command line was not parsed. */
int
verb_exit_status(enum verb_parsed parsed);

#endif
