/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/verb/verb.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <assert.h>
#include <errno.h>
#include <getopt.h>
#include <glib.h>
#include <stdio.h>
#include <string.h>

#define MOST_OPTIONS 32

enum {
	OPTION_HELP = 255,
	FIRST_ROW, /* what getopt_long() returns for the first row */
};

const struct option_row no_option_rows[] = {{.name = NULL}};

struct tables {
	struct option options[MOST_OPTIONS + 2];
	char letters[3 * MOST_OPTIONS + 3];
};

/* The rows as getopt_long() wants them.  A letter's value can only be the implied one, so that
 * "-rP" is two options. */
static void
tables_make(struct tables *tables, const struct option_row *rows)
{
	char *letter = tables->letters;
	int count = 0;

	letter = stpcpy(letter, ":h");
	for (; rows->name; rows++, count++) {
		assert(count < MOST_OPTIONS);
		tables->options[count] = (struct option){
			.name = rows->name,
			.has_arg = rows->alone ? optional_argument : required_argument,
			.val = FIRST_ROW + count,
		};
		if (!rows->letter)
			continue;
		*letter++ = rows->letter;
		if (!rows->alone)
			*letter++ = ':';
	}
	*letter = '\0';
	tables->options[count++] = (struct option){.name = "help", .val = OPTION_HELP};
	tables->options[count] = (struct option){.name = NULL};
}

static const struct option_row *
row_of(const struct option_row *rows, int c)
{
	if (c >= FIRST_ROW)
		return &rows[c - FIRST_ROW];
	for (; rows->name; rows++) {
		if (rows->letter && rows->letter == c)
			return rows;
	}
	return NULL;
}

static void
show_help(const struct verb_usage *usage, const char *verb)
{
	static const struct option_row help[] = {
		{.name = "help",
		 .letter = 'h',
		 .type = OPTION_CHOICE,
		 .alone = "on",
		 .help = "show this help and exit"},
		{.name = NULL},
	};

	printf("Usage: nbdloop %s %s\n%s\n\n", verb, usage->synopsis, usage->summary);
	options_print_switches(stdout, usage->rows);
	options_print_switches(stdout, help);
	if (usage->show_more)
		usage->show_more(stdout);
}

static enum verb_parsed
refuse_option(const struct option_row *rows, int c, char **argv)
{
	const struct option_row *row = optopt ? row_of(rows, optopt) : NULL;

	if (c == ':' && row)
		log_error("--%s needs a value: --%s=%s", row->name, row->name, row->arg);
	else if (optopt && optopt < OPTION_HELP)
		log_error("unknown option -%c; nbdloop %s --help lists the options", optopt,
			  argv[0]);
	else
		log_error("unknown or ambiguous option %s; nbdloop %s --help lists the options",
			  argv[optind - 1], argv[0]);
	return VERB_REFUSED;
}

static enum verb_parsed
take_option(const struct option_row *rows, const struct option_row *row, const char *value,
	    void *config)
{
	char *CLEANUP_FREE error = NULL;
	int r = option_set(rows, config, row->name, value, &error);

	if (r == 0)
		return VERB_PARSED;
	log_error("--%s", error ? error : strerror(-r));
	return VERB_REFUSED;
}

/* The words of the synopsis that stand for what must be there: "DEVICE" and "IMAGE" of "[OPTION]...
 * DEVICE IMAGE".  Returns the first that isn't; caller frees. */
static char *
missing_operand(const struct verb_usage *usage, int count)
{
	g_auto(GStrv) words = g_strsplit(usage->synopsis, " ", -1);
	int before = 0;

	for (char **word = words; *word; word++) {
		if (g_ascii_isupper(**word) && before++ == count)
			return g_strdup(*word);
	}
	return g_strdup("something");
}

static void
refuse_missing(const struct verb_usage *usage, const char *verb, int count)
{
	g_autofree char *missing = missing_operand(usage, count);

	log_error("%s is missing: nbdloop %s %s", missing, verb, usage->synopsis);
}

static enum verb_parsed
check_operands(const struct verb_usage *usage, const char *verb, char **operands, int count)
{
	if (count < usage->least)
		refuse_missing(usage, verb, count);
	else if (usage->most >= 0 && count > usage->most)
		log_error("\"%s\" is one word too many: nbdloop %s %s", operands[usage->most], verb,
			  usage->synopsis);
	else
		return VERB_PARSED;
	return VERB_REFUSED;
}

enum verb_parsed
verb_parse(const struct verb_usage *usage, void *config, int argc, char **argv, char ***operands,
	   int *count)
{
	enum verb_parsed parsed = VERB_PARSED;
	struct tables tables;
	int c;

	if (options_init(usage->rows, config) < 0) {
		log_error("%s", strerror(ENOMEM));
		return VERB_REFUSED;
	}
	tables_make(&tables, usage->rows);
	optind = 0;
	opterr = 0;
	while (parsed == VERB_PARSED &&
	       (c = getopt_long(argc, argv, tables.letters, tables.options, NULL)) != -1) {
		const struct option_row *row =
			c == '?' || c == ':' || c == 'h' ? NULL : row_of(usage->rows, c);

		if (c == 'h' || c == OPTION_HELP) {
			show_help(usage, argv[0]);
			parsed = VERB_HELP_SHOWN;
		} else if (row) {
			parsed =
				take_option(usage->rows, row, optarg ? optarg : row->alone, config);
		} else {
			parsed = refuse_option(usage->rows, c, argv);
		}
	}
	*operands = argv + optind;
	*count = argc - optind;
	if (parsed == VERB_PARSED)
		parsed = check_operands(usage, argv[0], *operands, *count);
	if (parsed != VERB_PARSED)
		options_free(usage->rows, config);
	return parsed;
}

int
verb_exit_status(enum verb_parsed parsed)
{
	return parsed == VERB_REFUSED ? EXIT_FAILURE : EXIT_SUCCESS;
}
