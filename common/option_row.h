/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Option tables.  One const row describes an option once, for every use of it:
 * its default, its parser, --help, the manual and what a program reports.
 */
#ifndef COMMON_OPTION_ROW_H
#define COMMON_OPTION_ROW_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum option_type {
	OPTION_STRING, /* field: char *, owned by the configuration (free with options_free) */
	OPTION_SIZE,   /* field: uint64_t, bytes; text as in common/unit.h */
	OPTION_UINT,   /* field: unsigned int; decimal */
	OPTION_CHOICE, /* field: unsigned int (an enum); text is one of .choices */
	OPTION_LIST, /* field: char **, owned as a STRING; NULL, or texts up to a NULL; each setting
			adds one */
};

struct option_row {
	const char *name; /* "sector-size"; NULL ends a table */
	char letter;      /* "-p" on a command line; 0: none */
	enum option_type type;
	size_t field;               /* offsetof() in the configuration structure */
	const char *initial;        /* default, in the option's own text form; NULL: 0 or NULL */
	uint64_t min, max;          /* SIZE, UINT: allowed range; max 0: no upper limit */
	const char *const *choices; /* CHOICE: names by value; SIZE, UINT: the only allowed
				     * texts' values, or NULL; NULL-terminated */
	const char *alone;  /* what the option means on a command line when it has no value; NULL:
			     * it needs one */
	const char *arg;    /* what --help shows after the '=': "SIZE" */
	const char *help;   /* one line of --help, no full stop */
	const char *manual; /* POD paragraphs of the manual; ends with a newline */
};

/* The choices of what is off (0) or on (1); and of what may be left to the program, an enum
 * tristate. */
extern const char *const option_off_on[];
extern const char *const option_off_on_auto[];

enum tristate {
	TRISTATE_OFF,
	TRISTATE_ON,
	TRISTATE_AUTO,
};

/* The row of a switch of a command line: --json, --json=on, --json=off. */
#define OPTION_SWITCH(name_, letter_, field_, help_, manual_)                                      \
	{                                                                                          \
		.name = (name_), .letter = (letter_), .type = OPTION_CHOICE, .field = (field_),    \
		.choices = option_off_on, .alone = "on", .arg = "on|off", .help = (help_),         \
		.manual = (manual_)                                                                \
	}

/* Sets every field to its row's default. Fields of type STRING and LIST are overwritten, not freed.
 * Returns 0 or -ENOMEM. */
int
options_init(const struct option_row *rows, void *config);

/* Frees the strings and lists, and leaves NULL in their fields. */
void
options_free(const struct option_row *rows, void *config);

/*
 * Sets one option from text.  Returns 0; -ENOENT: no row has that name (*error untouched);
 * -EINVAL or -ERANGE: *error gets a sentence that names option, value and what is allowed,
 * e.g. "sector-size=700: must be one of 512, 1024, 2048, 4096"; -ENOMEM.
 * The caller frees *error.
 */
int
option_set(const struct option_row *rows, void *config, const char *name, const char *value,
	   char **error);

/* The row of that name, or NULL. */
const struct option_row *
option_find(const struct option_row *rows, const char *name);

/* The value in its text form ("64k", "auto", a path, "" for a NULL string, "a, b"). Caller frees;
 * NULL when memory ran out. */
char *
option_value_text(const struct option_row *row, const void *config);

/* Appends the rows' help, a line each, aligned: "    sector-size=SIZE   help (default: 512)\n". */
void
options_print_help(FILE *out, const struct option_row *rows);

/* Appends the rows as POD: "=item B<sector-size=>SIZE\n\nmanual\n" (between =over and =back that
 * the caller writes). Names the default when .initial is not NULL. */
void
options_print_pod(FILE *out, const struct option_row *rows);

/* The same for options of a command line: "    -p, --port=N   help (default: 10809)\n", and
 * "=item B<-p>, B<--port=>N\n\nmanual\n". */
void
options_print_switches(FILE *out, const struct option_row *rows);
void
options_print_switches_pod(FILE *out, const struct option_row *rows);

#endif
