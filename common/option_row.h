/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Option tables. One row describes an option for all uses: default, parser, --help, head of its
 * entry in the manual, and the values that a program reports. The text of the entry stands in the
 * manual (man/make-manual).
 */
#ifndef COMMON_OPTION_ROW_H
#define COMMON_OPTION_ROW_H

#include "common/near_word.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum option_type {
	OPTION_STRING, /* field: char *, owned by the configuration; options_free() frees it */
	OPTION_SIZE,   /* field: uint64_t, bytes; text as in common/unit.h */
	OPTION_UINT,   /* field: unsigned int; decimal */
	OPTION_CHOICE, /* field: unsigned int (an enum); text is one of .choices, or another
			  word for it (option_choice_name()) */
	OPTION_LIST,   /* field: char **, owned like a STRING; NULL, or an array of texts that ends
			  with NULL; each option_set() adds a text */
};

struct option_row {
	const char *name; /* "sector-size"; NULL ends a table */
	char letter;      /* "-p" on a command line; 0: none */
	enum option_type type;
	size_t field;               /* offsetof() in the configuration structure */
	const char *initial;        /* default, as a user would write it; NULL: 0 or NULL */
	uint64_t min, max;          /* SIZE, UINT: allowed range; max 0: no upper limit */
	const char *const *choices; /* CHOICE: names, indexed by value; SIZE, UINT: the
				     * allowed values, or NULL; ends with NULL */
	const char *alone; /* the value of an option that stands on a command line without one;
			     * NULL: it needs a value */
	const char *arg;   /* the text after '=' in --help: "SIZE" */
	const char *help;  /* one line of --help, without a full stop */
};

/* The choices of options that are off (0) or on (1), and of those whose value is an enum tristate.
 */
extern const char *const option_off_on[];
extern const char *const option_off_on_auto[];

enum tristate {
	TRISTATE_OFF,
	TRISTATE_ON,
	TRISTATE_AUTO,
};

/* What the rows of such options have in common. */
#define OPTION_OFF_ON .type = OPTION_CHOICE, .choices = option_off_on, .arg = "on|off"
#define OPTION_OFF_ON_AUTO                                                                         \
	.type = OPTION_CHOICE, .choices = option_off_on_auto, .arg = "on|off|auto"

/* The row of a switch on a command line: --json, --json=on, --json=off. */
#define OPTION_SWITCH(name_, letter_, field_, help_)                                               \
	{                                                                                          \
		.name = (name_), .letter = (letter_), OPTION_OFF_ON, .field = (field_),            \
		.alone = "on", .help = (help_)                                                     \
	}

/* The row of an option that takes a text, with neither default nor value when it stands alone. */
#define OPTION_TEXT(name_, letter_, field_, arg_, help_)                                           \
	{                                                                                          \
		.name = (name_), .letter = (letter_), .type = OPTION_STRING, .field = (field_),    \
		.arg = (arg_), .help = (help_)                                                     \
	}

/* Appends the rows of another table to `table`, which has room for `size` rows in all. Their fields
 * lie `offset` bytes into the structure: the options of a configuration that embeds another one. */
void
options_append(struct option_row *table, size_t size, const struct option_row *rows, size_t offset);

/* Sets every field to its row's default. Overwrites fields of type STRING and LIST without freeing
 * them.
 * Returns 0 or -ENOMEM. */
int
options_init(const struct option_row *rows, void *config);

/* Frees the strings and lists, and sets their fields to NULL. */
void
options_free(const struct option_row *rows, void *config);

/*
 * Sets one option from text. Returns 0; -ENOENT if no row has that name (*error is then not set);
 * -EINVAL or -ERANGE with *error, a sentence that names the option, its value and the allowed
 * values, such as "sector-size=700: must be one of 512, 1024, 2048, 4096"; or -ENOMEM. The caller
 * frees *error.
 */
int
option_set(const struct option_row *rows, void *config, const char *name, const char *value,
	   char **error);

/* Returns the name of a choice for which there are other words: "on" for "yes" and "true", "off"
 * for "no" and "false". Otherwise returns `value`. */
const char *
option_choice_name(const char *value);

/* Returns the row of that name, or NULL. */
const struct option_row *
option_find(const struct option_row *rows, const char *name);

/* Offers all names as the one that a mistyped one was meant to be. */
void
options_offer_names(const struct option_row *rows, struct near_word *near);

/* Returns whether its values are paths. */
bool
option_is_path(const struct option_row *row);

/* Returns the value as a user would write it: "64k", "auto", a path, "" for a NULL string, "a, b"
 * for a list. The caller frees it; NULL: out of memory. */
char *
option_value_text(const struct option_row *row, const void *config);

/* Prints a line of help for each row, aligned: "    sector-size=SIZE   help (default: 512)\n". With
 * `switches`, they are options of a command line: "    -p, --port=N   help (default: 10809)\n". */
void
options_print_help(FILE *out, const struct option_row *rows, bool switches);

/* Prints the rows as POD: "=item B<sector-size=>SIZE\n\n__TEXT sector-size__\n\n", in which
 * man/make-manual replaces the second line; or "=item B<-p>, B<--port=>N\n\n__TEXT port__\n\n".
 * Names the default if .initial is not NULL. The caller writes =over and =back around them. */
void
options_print_pod(FILE *out, const struct option_row *rows, bool switches);

#endif
