/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Option tables: sets fields from text, writes their values as text, and prints help.
 */
#include "common/option_row.h"

#include "common/cleanup.h"
#include "common/unit.h"
#include "common/wrapped_text.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#define HELP_NAME_MAX 32 /* columns: the help of a longer one begins below it */

const char *const option_off_on[] = {"off", "on", NULL};
const char *const option_off_on_auto[] = {"off", "on", "auto", NULL};

static void *
row_field(const struct option_row *row, void *config)
{
	return (char *)config + row->field;
}

/* Returns the largest value that the row allows. */
static uint64_t
row_max(const struct option_row *row)
{
	if (row->max)
		return row->max;
	return row->type == OPTION_SIZE ? INT64_MAX : UINT_MAX;
}

static uint64_t
row_number(const struct option_row *row, const void *config)
{
	const void *field = (const char *)config + row->field;

	if (row->type == OPTION_SIZE)
		return *(const uint64_t *)field;
	return *(const unsigned int *)field;
}

static void
row_set_number(const struct option_row *row, void *config, uint64_t number)
{
	void *field = row_field(row, config);

	if (row->type == OPTION_SIZE)
		*(uint64_t *)field = number;
	else
		*(unsigned int *)field = (unsigned int)number;
}

/* Accepts only digits; strtoul() would accept blanks and a sign. */
static int
parse_decimal(const char *text, uint64_t *number)
{
	uint64_t value = 0;

	if (!*text)
		return -EINVAL;
	for (; *text; text++) {
		unsigned int digit = (unsigned int)(*text - '0');

		if (*text < '0' || *text > '9')
			return -EINVAL;
		if (value > (UINT64_MAX - digit) / 10)
			value = UINT64_MAX; /* and stays so, above every row's range */
		else
			value = value * 10 + digit;
	}
	*number = value;
	return 0;
}

static int
row_parse_number(const struct option_row *row, const char *text, uint64_t *number)
{
	if (row->type == OPTION_SIZE)
		return unit_parse_size(text, number);
	return parse_decimal(text, number);
}

/* Returns the choice of a SIZE or UINT row that means this number, or NULL. */
static const char *
row_choice_of(const struct option_row *row, uint64_t number)
{
	for (size_t i = 0; row->choices[i]; i++) {
		uint64_t allowed = 0;
		int r = row_parse_number(row, row->choices[i], &allowed);

		assert(r == 0);
		(void)r;
		if (allowed == number)
			return row->choices[i];
	}
	return NULL;
}

/* Writes the allowed values, after "must be ". */
static void
row_print_allowed(FILE *out, const struct option_row *row, int r)
{
	char min[UNIT_SIZE_TEXT], max[UNIT_SIZE_TEXT];

	if (row->choices) {
		fputs("one of ", out);
		for (size_t i = 0; row->choices[i]; i++)
			fprintf(out, "%s%s", i ? ", " : "", row->choices[i]);
	} else if (row->type == OPTION_UINT) {
		fprintf(out, "a whole number from %" PRIu64 " to %" PRIu64, row->min, row_max(row));
	} else if (row->min || row->max || r == -ERANGE) {
		fprintf(out, "a size in bytes from %s to %s", unit_format_size(row->min, min),
			unit_format_size(row_max(row), max));
	} else {
		fputs("a size in bytes, such as 512, 64k or 4G", out);
	}
}

/* Sets *error to the sentence for a refused value. Returns `r`, or -ENOMEM. */
static int
row_refuse(const struct option_row *row, const char *value, int r, char **error)
{
	char *CLEANUP_FREE text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return -ENOMEM;
	fprintf(out, "%s=%s: must be ", row->name, value);
	row_print_allowed(out, row, r);
	if (fclose(out))
		return -ENOMEM;
	*error = steal_pointer(&text);
	return r;
}

static int
row_set_string(const struct option_row *row, void *config, const char *value)
{
	char **field = row_field(row, config);
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	free(*field);
	*field = copy;
	return 0;
}

static int
row_add_string(const struct option_row *row, void *config, const char *value)
{
	char ***field = row_field(row, config);
	size_t count = 0;
	char **list;

	while (*field && (*field)[count])
		count++;
	list = reallocarray(*field, count + 2, sizeof(*list));
	if (!list)
		return -ENOMEM;
	*field = list;
	list[count] = strdup(value);
	list[count + 1] = NULL;
	return list[count] ? 0 : -ENOMEM;
}

const char *
option_choice_name(const char *value)
{
	static const struct {
		const char *word, *name;
	} words[] = {{"yes", "on"}, {"true", "on"}, {"no", "off"}, {"false", "off"}};

	for (unsigned int i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(words[i].word, value) == 0)
			return words[i].name;
	}
	return value;
}

static int
row_set_choice(const struct option_row *row, void *config, const char *value, char **error)
{
	for (unsigned int i = 0; row->choices[i]; i++) {
		if (strcmp(row->choices[i], option_choice_name(value)) == 0) {
			row_set_number(row, config, i);
			return 0;
		}
	}
	return row_refuse(row, value, -EINVAL, error);
}

static int
row_set(const struct option_row *row, void *config, const char *value, char **error)
{
	uint64_t number = 0;
	int r;

	if (row->type == OPTION_STRING)
		return row_set_string(row, config, value);
	if (row->type == OPTION_LIST)
		return row_add_string(row, config, value);
	if (row->type == OPTION_CHOICE)
		return row_set_choice(row, config, value, error);

	r = row_parse_number(row, value, &number);
	if (!r && row->choices && !row_choice_of(row, number))
		r = -EINVAL;
	if (!r && (number < row->min || number > row_max(row)))
		r = -ERANGE;
	if (r)
		return row_refuse(row, value, r, error);
	row_set_number(row, config, number);
	return 0;
}

void
options_append(struct option_row *table, size_t size, const struct option_row *rows, size_t offset)
{
	size_t count = 0;

	while (table[count].name)
		count++;
	for (; rows->name; rows++) {
		assert(count + 1 < size);
		table[count] = *rows;
		table[count++].field += offset;
	}
	table[count] = (struct option_row){.name = NULL};
}

int
options_init(const struct option_row *rows, void *config)
{
	/* Clears all fields first, so that options_free() can be called after any failure below. */
	for (const struct option_row *row = rows; row->name; row++) {
		if (row->type == OPTION_STRING)
			*(char **)row_field(row, config) = NULL;
		else if (row->type == OPTION_LIST)
			*(char ***)row_field(row, config) = NULL;
		else
			row_set_number(row, config, 0);
	}

	for (const struct option_row *row = rows; row->name; row++) {
		char *CLEANUP_FREE error = NULL;
		int r;

		if (!row->initial)
			continue;
		r = row_set(row, config, row->initial, &error);
		assert(r == 0 || r == -ENOMEM);
		if (r) {
			options_free(rows, config);
			return r;
		}
	}
	return 0;
}

void
options_free(const struct option_row *rows, void *config)
{
	for (const struct option_row *row = rows; row->name; row++) {
		if (row->type == OPTION_STRING) {
			char **field = row_field(row, config);

			free(*field);
			*field = NULL;
		} else if (row->type == OPTION_LIST) {
			char ***field = row_field(row, config);

			for (char **text = *field; text && *text; text++)
				free(*text);
			free(*field);
			*field = NULL;
		}
	}
}

const struct option_row *
option_find(const struct option_row *rows, const char *name)
{
	for (const struct option_row *row = rows; row->name; row++)
		if (strcmp(row->name, name) == 0)
			return row;
	return NULL;
}

void
options_offer_names(const struct option_row *rows, struct near_word *near)
{
	for (; rows->name; rows++)
		near_word_offer(near, rows->name);
}

bool
option_is_path(const struct option_row *row)
{
	return row->type == OPTION_STRING &&
	       (strcmp(row->arg, "FILE") == 0 || strcmp(row->arg, "PATH") == 0 ||
		strncmp(row->arg, "DIR", 3) == 0);
}

int
option_set(const struct option_row *rows, void *config, const char *name, const char *value,
	   char **error)
{
	const struct option_row *row = option_find(rows, name);

	return row ? row_set(row, config, value, error) : -ENOENT;
}

/* Returns the text of a number that is no choice. */
static char *
number_text(const struct option_row *row, uint64_t number)
{
	char text[UNIT_SIZE_TEXT];

	if (row->type == OPTION_SIZE)
		unit_format_size(number, text);
	else
		snprintf(text, sizeof(text), "%" PRIu64, number);
	return strdup(text);
}

static char *
list_text(char *const *list)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	for (char *const *item = list; item && *item; item++)
		fprintf(out, "%s%s", item == list ? "" : ", ", *item);
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

char *
option_value_text(const struct option_row *row, const void *config)
{
	const char *choice = NULL;
	uint64_t number;

	if (row->type == OPTION_STRING) {
		const char *text = *(char *const *)((const char *)config + row->field);

		return strdup(text ? text : "");
	}
	if (row->type == OPTION_LIST)
		return list_text(*(char **const *)((const char *)config + row->field));

	number = row_number(row, config);
	if (row->type == OPTION_CHOICE) {
		for (uint64_t i = 0; i <= number; i++) {
			choice = row->choices[i];
			assert(choice);
		}
	} else if (row->choices) {
		choice = row_choice_of(row, number);
	}
	return choice ? strdup(choice) : number_text(row, number);
}

static bool
row_is_on_by_default(const struct option_row *row)
{
	return row->initial && strcmp(row->initial, "on") == 0;
}

/* Returns whether the option is on or off, and off by default. The help of a command line then
 * needs only its name, without "=on|off". */
static bool
row_is_switch(const struct option_row *row)
{
	return row->alone && row->type == OPTION_CHOICE && (!row->choices || !row->choices[2]) &&
	       !row_is_on_by_default(row);
}

/* Without a value, an option is rarely what it is by default: its text tells both. */
static bool
row_shows_default(const struct option_row *row, bool switches)
{
	return row->initial && (!switches || !row->alone || row_is_on_by_default(row));
}

/* Prints an option as help and manual name it: "sector-size=SIZE", "-p, --port=N", or
 * "-w, --watch[=SECONDS]". `bold` and `plain` stand around the name. Returns the length. */
static int
row_print_name(FILE *out, const struct option_row *row, bool switches, const char *bold,
	       const char *plain)
{
	int length = 0;

	if (switches && row->letter)
		length += fprintf(out, "%s-%c%s, ", bold, row->letter, plain);
	length += fprintf(out, "%s%s%s", bold, switches ? "--" : "", row->name);
	if (switches && row_is_switch(row))
		return length + fprintf(out, "%s", plain);
	if (switches && row->alone)
		return length + fprintf(out, "%s[=%s]", plain, row->arg);
	return length + fprintf(out, "=%s%s", plain, row->arg);
}

static int
row_name_length(const struct option_row *row, bool switches)
{
	size_t length = strlen(row->name);

	if (!switches || !row_is_switch(row))
		length += 1 + strlen(row->arg) + (switches && row->alone ? 2 : 0);
	if (switches)
		length += 2 + (row->letter ? 4 : 0);
	return (int)length;
}

/* The help beside the names, from the same column on; below a name that is long. */
static void
print_help_text(FILE *out, const struct option_row *row, bool switches, int column, int indent)
{
	char initial[256];

	if (column + 2 > indent) {
		fputc('\n', out);
		column = 0;
	}
	fprintf(out, "%*s", indent - column, "");
	column = wrapped_text_print(out, row->help, indent, indent);
	if (row_shows_default(row, switches)) {
		snprintf(initial, sizeof(initial), " (default: %s)", row->initial);
		wrapped_text_print(out, initial, column, indent);
	}
	fputc('\n', out);
}

void
options_print_help(FILE *out, const struct option_row *rows, bool switches)
{
	int width = 0;

	for (const struct option_row *row = rows; row->name; row++) {
		const int length = row_name_length(row, switches);

		if (length > width && length <= HELP_NAME_MAX)
			width = length;
	}
	for (const struct option_row *row = rows; row->name; row++) {
		int column = fprintf(out, "    ");

		column += row_print_name(out, row, switches, "", "");
		print_help_text(out, row, switches, column, 4 + width + 3);
	}
}

void
options_print_pod(FILE *out, const struct option_row *rows, bool switches)
{
	for (const struct option_row *row = rows; row->name; row++) {
		fputs("=item ", out);
		row_print_name(out, row, switches, "B<", ">");
		fprintf(out, "\n\n__TEXT %s__\n\n", row->name);
		if (row_shows_default(row, switches))
			fprintf(out, "The default is C<%s>.\n\n", row->initial);
	}
}
