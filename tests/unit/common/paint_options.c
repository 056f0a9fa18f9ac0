/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/common/paint_options.h"

#include <check.h>
#include <stddef.h>
#include <string.h>

#define FIELD(name_) offsetof(struct paint, name_)

static const char *const colors[] = {"red", "green", "blue", NULL};
static const char *const sectors[] = {"512", "1024", "4k", NULL};
static const char *const switches[] = {"off", "on", NULL};
static const char *const ports[] = {"80", "443", NULL};

const struct option_row rows[] = {
	{.name = "file",
	 .type = OPTION_STRING,
	 .field = FIELD(file),
	 .arg = "FILE",
	 .help = "what to paint"},
	{.name = "color",
	 .type = OPTION_CHOICE,
	 .field = FIELD(color),
	 .initial = "green",
	 .choices = colors,
	 .arg = "red|green|blue",
	 .help = "its color"},
	{.name = "offset",
	 .type = OPTION_SIZE,
	 .field = FIELD(offset),
	 .arg = "SIZE",
	 .help = "where to begin"},
	{.name = "chunk",
	 .type = OPTION_SIZE,
	 .field = FIELD(chunk),
	 .initial = "64k",
	 .min = 4096,
	 .max = 1 << 20,
	 .arg = "SIZE",
	 .help = "how much at once"},
	{.name = "sector",
	 .type = OPTION_SIZE,
	 .field = FIELD(sector),
	 .initial = "512",
	 .choices = sectors,
	 .arg = "SIZE",
	 .help = "grain"},
	{.name = "depth",
	 .type = OPTION_UINT,
	 .field = FIELD(depth),
	 .initial = "8",
	 .min = 1,
	 .max = 128,
	 .arg = "N",
	 .help = "layers"},
	{.name = "any", .type = OPTION_UINT, .field = FIELD(any), .arg = "N", .help = "any number"},
	{.name = "port",
	 .type = OPTION_UINT,
	 .field = FIELD(port),
	 .initial = "80",
	 .choices = ports,
	 .arg = "N",
	 .help = "port"},
	{.name = "label",
	 .type = OPTION_STRING,
	 .field = FIELD(label),
	 .initial = "wet paint",
	 .arg = "TEXT",
	 .help = "warning sign"},
	{.name = "coat",
	 .letter = 'c',
	 .type = OPTION_LIST,
	 .field = FIELD(coats),
	 .arg = "TEXT",
	 .help = "a further coat"},
	{.name = "wet",
	 .letter = 'w',
	 .type = OPTION_CHOICE,
	 .field = FIELD(wet),
	 .initial = "off",
	 .choices = switches,
	 .alone = "on",
	 .arg = "on|off",
	 .help = "don't touch"},
	{.name = NULL},
};

struct paint paint;

void
paint_init(void)
{
	memset(&paint, 0xaa, sizeof(paint));
	ck_assert_int_eq(options_init(rows, &paint), 0);
}

void
paint_fini(void)
{
	ck_assert_uint_eq(paint.guard_before, 0xaaaaaaaa);
	ck_assert_uint_eq(paint.guard_color, 0xaaaaaaaa);
	ck_assert_uint_eq(paint.guard_depth, 0xaaaaaaaa);
	options_free(rows, &paint);
}

void
assert_set(const char *name, const char *value)
{
	char *error = NULL;

	ck_assert_msg(option_set(rows, &paint, name, value, &error) == 0, "%s=%s: %s", name, value,
		      error);
	ck_assert_ptr_null(error);
}
