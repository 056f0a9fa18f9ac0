/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/verb/verb.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "common/option_getopt.h"

#include <errno.h>
#include <glib.h>
#include <stdio.h>
#include <string.h>

const struct option_row no_option_rows[] = {{.name = NULL}};

/* Of every verb. */
static const struct option_row help_option_rows[] = {
	{.name = "help",
	 .letter = 'h',
	 .type = OPTION_CHOICE,
	 .alone = "on",
	 .help = "show this help and exit"},
	{.name = NULL},
};

static void
show_help(const struct verb_usage *usage, const char *verb)
{
	printf("Usage: nbdloop %s %s\n%s\n\n", verb, usage->synopsis, usage->summary);
	options_print_switches(stdout, usage->rows);
	options_print_switches(stdout, help_option_rows);
	if (usage->show_more)
		usage->show_more(stdout);
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

static enum verb_parsed
take_options(const struct verb_usage *usage, void *config, int argc, char **argv)
{
	g_autofree char *command = g_strdup_printf("nbdloop %s", argv[0]);
	enum verb_parsed parsed = VERB_PARSED;
	char *CLEANUP_FREE error = NULL;
	const struct option_row *row;
	struct option_getopt getopt;
	const char *value;
	int r = 0;

	option_getopt_init(&getopt, command);
	option_getopt_add(&getopt, usage->rows);
	option_getopt_add(&getopt, help_option_rows);
	while (parsed == VERB_PARSED &&
	       (r = option_getopt_next(&getopt, argc, argv, &row, &value, &error)) > 0) {
		if (row == help_option_rows) {
			show_help(usage, argv[0]);
			return VERB_HELP_SHOWN;
		}
		parsed = take_option(usage->rows, row, value, config);
	}
	if (r >= 0)
		return parsed;
	log_error("%s", error ? error : strerror(ENOMEM));
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
	enum verb_parsed parsed;

	if (options_init(usage->rows, config) < 0) {
		log_error("%s", strerror(ENOMEM));
		return VERB_REFUSED;
	}
	parsed = take_options(usage, config, argc, argv);
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
