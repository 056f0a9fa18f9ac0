/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs of the command line ("attach" in `nbdloop attach disk.img'), and how they all run.
 */
#ifndef TOOL_VERB_VERB_H
#define TOOL_VERB_VERB_H

#include "common/option_row.h"

#include <glib.h>
#include <stdbool.h>

/* Exit status of a command line that is wrong by itself: nothing was done. */
#define VERB_USAGE 2

/* A parsed command line. */
struct verb_call {
	const void *options; /* the verb's own structure */
	char **operands;     /* NULL after the last one */
	int count;           /* of the operands */
};

struct verb {
	const char *name;
	const char *help;     /* a line of nbdloop --help */
	const char *synopsis; /* what follows the verb: "[OPTION]... DEVICE" */
	const char *summary;  /* a sentence for the verb's --help */
	/* The exit status after an error of run(), in place of .failure_status. */
	int (*failure_exit)(const GError *error);
	const struct option_row *rows; /* NULL: there are no options */
	size_t options_size;           /* of the structure that has the rows' fields, bytes */
	void (*show_more)(FILE *out);  /* what --help ends with, or NULL */
	int least, most;               /* operands; most -1: no limit */
	int failure_status; /* exit status after a failure other than ENOENT and ENXIO, the device
			       isn't attached; 0: always EXIT_FAILURE */
	/* Returns whether operands and options agree, as far as the numbers above do not say it,
	 * and no look at the machine is needed; NULL: they do. */
	bool (*check)(const struct verb_call *call, GError **error);
	/* False: it failed.  *error, if set, is not logged yet; all other errors were. */
	bool (*run)(const struct verb_call *call, GError **error);
};

/* All of them, by their names; NULL after the last one. */
extern const struct verb *const verbs[];

extern const struct verb verb_adopt, verb_attach, verb_backup, verb_change, verb_check,
	verb_checkpoint, verb_clone, verb_detach, verb_export, verb_keys, verb_layer, verb_list,
	verb_replace_server, verb_resize, verb_restore, verb_set, verb_snapshot, verb_start,
	verb_status, verb_stop, verb_top;

/* NULL: there is none of that name. */
const struct verb *
verb_find(const char *name);

/* Parses its command line, where argv[0] is its name, and runs it.  Returns the program's exit
 * status. */
int
verb_run(const struct verb *verb, int argc, char **argv);

/* For a verb with --all: whether either devices are named or --all is given; else an error.
 * `where`: " of the table", or "". */
bool
verb_takes_devices(const struct verb_call *call, bool all, const char *where, GError **error);

/* Calls `run` with the name "nbd0" of each device in `names`, which are as people write them, and
 * logs errors.  False: it failed for one of them. */
bool
verb_each_device(char **names, bool (*run)(const char *name, const void *data, GError **error),
		 const void *data);

#endif
