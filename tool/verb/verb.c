/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/verb/verb.h"

#include "tool/device/device.h"
#include "tool/failure.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "common/wrapped_text.h"
#include "common/option_getopt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct verb *const verbs[] = {
	&verb_adopt,      &verb_attach,   &verb_backup,         &verb_change, &verb_check,
	&verb_checkpoint, &verb_clone,    &verb_detach,         &verb_export, &verb_keys,
	&verb_layer,      &verb_list,     &verb_replace_server, &verb_resize, &verb_restore,
	&verb_set,        &verb_snapshot, &verb_start,          &verb_status, &verb_stop,
	&verb_top,        NULL,
};

enum parsed {
	PARSED,
	HELP_SHOWN, /* nothing else is to be done */
	REFUSED,    /* with a message */
};

/* Of every verb. */
static const struct option_row help_option_rows[] = {
	{.name = "help",
	 .letter = 'h',
	 .type = OPTION_CHOICE,
	 .alone = "on",
	 .help = "show this help and exit"},
	{.name = NULL},
};

static const struct option_row *
rows_of(const struct verb *verb)
{
	static const struct option_row none[] = {{.name = NULL}};

	return verb->rows ? verb->rows : none;
}

static void
verb_show_help(const struct verb *verb)
{
	printf("Usage: nbdloop %s %s\n", verb->name, verb->synopsis);
	wrapped_text_print(stdout, verb->summary, 0, 0);
	printf("\n\n");
	options_print_help(stdout, rows_of(verb), true);
	options_print_help(stdout, help_option_rows, true);
	if (verb->show_more)
		verb->show_more(stdout);
}

static enum parsed
verb_take_options(const struct verb *verb, void *config, int argc, char **argv)
{
	g_autofree char *command = g_strdup_printf("nbdloop %s", verb->name);
	char *CLEANUP_FREE error = NULL;
	const struct option_row *row;
	struct option_getopt getopt;
	const char *value;
	int r;

	option_getopt_init(&getopt, command);
	option_getopt_add(&getopt, rows_of(verb));
	option_getopt_add(&getopt, help_option_rows);
	while ((r = option_getopt_next(&getopt, argc, argv, &row, &value, &error)) > 0) {
		if (row == help_option_rows) {
			verb_show_help(verb);
			return HELP_SHOWN;
		}
		r = option_set(rows_of(verb), config, row->name, value, &error);
		if (r < 0) {
			log_error("--%s", error ? error : strerror(-r));
			return REFUSED;
		}
	}
	if (r == 0)
		return PARSED;
	log_error("%s", error ? error : strerror(ENOMEM));
	return REFUSED;
}

/* The first operand of the synopsis ("DEVICE" and "IMAGE" of "[OPTION]... DEVICE IMAGE") that the
 * command line lacks.  Caller frees. */
static char *
missing_operand(const struct verb *verb, int count)
{
	g_auto(GStrv) words = g_strsplit(verb->synopsis, " ", -1);
	int before = 0;

	for (char **word = words; *word; word++) {
		if (g_ascii_isupper(**word) && before++ == count)
			return g_strdup(*word);
	}
	return g_strdup("something");
}

static enum parsed
check_operands(const struct verb *verb, char **operands, int count)
{
	if (count < verb->least) {
		g_autofree char *missing = missing_operand(verb, count);

		log_error("%s is missing: nbdloop %s %s", missing, verb->name, verb->synopsis);
	} else if (verb->most >= 0 && count > verb->most)
		log_error("\"%s\" is one word too many: nbdloop %s %s", operands[verb->most],
			  verb->name, verb->synopsis);
	else
		return PARSED;
	return REFUSED;
}

static enum parsed
verb_parse(const struct verb *verb, void *options, int argc, char **argv, struct verb_call *call)
{
	g_autoptr(GError) error = NULL;
	enum parsed parsed;

	if (options_init(rows_of(verb), options) < 0) {
		log_error("%s", strerror(ENOMEM));
		return REFUSED;
	}
	parsed = verb_take_options(verb, options, argc, argv);
	*call = (struct verb_call){options, argv + optind, argc - optind};
	if (parsed == PARSED)
		parsed = check_operands(verb, call->operands, call->count);
	if (parsed == PARSED && verb->check && !verb->check(call, &error)) {
		log_error("%s", error->message);
		parsed = REFUSED;
	}
	return parsed;
}

const struct verb *
verb_find(const char *name)
{
	for (const struct verb *const *verb = verbs; *verb; verb++) {
		if (strcmp((*verb)->name, name) == 0)
			return *verb;
	}
	return NULL;
}

int
verb_run(const struct verb *verb, int argc, char **argv)
{
	g_autofree void *options = g_malloc0(verb->options_size);
	g_autoptr(GError) error = NULL;
	struct verb_call call = {0};
	enum parsed parsed = verb_parse(verb, options, argc, argv, &call);
	bool done = parsed == PARSED ? verb->run(&call, &error) : parsed == HELP_SHOWN;

	options_free(rows_of(verb), options);
	if (error)
		log_error("%s", error->message);
	if (error && verb->failure_exit)
		return verb->failure_exit(error);
	if (done)
		return EXIT_SUCCESS;
	if (parsed == REFUSED)
		return VERB_USAGE;
	return !verb->failure_status || failure_is(error, ENOENT) || failure_is(error, ENXIO)
		       ? EXIT_FAILURE
		       : verb->failure_status;
}

/* ---- operands that are devices */

bool
verb_takes_devices(const struct verb_call *call, bool all, const char *where, GError **error)
{
	if (!all && call->count == 0)
		return failure(error, EINVAL, "name a device%s, or use --all",
			       *where ? where : " to detach");
	return !all || call->count == 0 ||
	       failure(error, EINVAL, "--all is for all devices%s; leave out the names, or --all",
		       where);
}

bool
verb_each_device(char **names, bool (*run)(const char *name, const void *data, GError **error),
		 const void *data)
{
	bool all = true;

	for (; *names; names++) {
		g_autoptr(GError) error = NULL;
		g_autofree char *name = device_name(*names, &error);

		if (name && run(name, data, &error))
			continue;
		if (error)
			log_error("%s", error->message);
		all = false;
	}
	return all;
}
