/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/option_getopt.h"

#include "common/error.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define FIRST_ROW 256 /* getopt_long()'s value for the first row: larger than any letter */

void
option_getopt_init(struct option_getopt *getopt, const char *command)
{
	/* With the colon, getopt_long() reports a missing value in another way than an unknown
	 * option. */
	*getopt = (struct option_getopt){.command = command, .letters = ":"};
	optind = 0;
	opterr = 0;
}

void
option_getopt_add(struct option_getopt *getopt, const struct option_row *rows)
{
	char *letters = getopt->letters + strlen(getopt->letters);

	for (; rows->name; rows++) {
		int i = getopt->count++;

		assert(i < OPTION_GETOPT_MAX);
		getopt->rows[i] = rows;
		getopt->options[i] = (struct option){
			.name = rows->name,
			.has_arg = !rows->arg    ? no_argument
				   : rows->alone ? optional_argument
						 : required_argument,
			.val = FIRST_ROW + i,
		};
		if (!rows->letter)
			continue;
		*letters++ = rows->letter;
		/* "-r" always has the implied value, so that "-rU PATH" is two options. */
		if (!rows->alone)
			*letters++ = ':';
		*letters = '\0';
	}
}

static const struct option_row *
find_row(const struct option_getopt *getopt, int c)
{
	if (c >= FIRST_ROW)
		return getopt->rows[c - FIRST_ROW];
	for (int i = 0; i < getopt->count; i++) {
		if (getopt->rows[i]->letter && getopt->rows[i]->letter == c)
			return getopt->rows[i];
	}
	return NULL;
}

static int
set_option_error(const struct option_getopt *getopt, int c, char **argv, char **error)
{
	const struct option_row *row = find_row(getopt, optopt);
	char word[NEAR_WORD_MAX + 2] = "", hint[NEAR_WORD_HINT];
	struct near_word near = {.word = word};

	if (c == ':' && row)
		return error_set(error, -EINVAL, "--%s needs a value: --%s=%s", row->name,
				 row->name, row->arg);
	if (optopt && optopt < FIRST_ROW)
		return error_set(error, -EINVAL, "unknown option -%c; %s --help lists the options",
				 optopt, getopt->command);
	/* "--read_only=on": a longer word is near to none. */
	snprintf(word, sizeof(word), "%s", argv[optind - 1] + strspn(argv[optind - 1], "-"));
	word[strcspn(word, "=")] = '\0';
	for (int i = 0; i < getopt->count; i++)
		near_word_offer(&near, getopt->rows[i]->name);
	return error_set(error, -EINVAL,
			 "unknown or ambiguous option %s%s; %s --help lists the options",
			 argv[optind - 1], near_word_hint(&near, hint), getopt->command);
}

int
option_getopt_next(struct option_getopt *getopt, int argc, char **argv,
		   const struct option_row **row, const char **value, char **error)
{
	int c = getopt_long(argc, argv, getopt->letters, getopt->options, NULL);

	if (c == -1)
		return 0;
	if (c == '?' || c == ':')
		return set_option_error(getopt, c, argv, error);
	*row = find_row(getopt, c);
	*value = optarg ? optarg : (*row)->alone;
	return 1;
}
