/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of an image: defaults, and the value of each text.
 */
#include "engine/image_config.h"

#include "engine/backing/ceph/rbd_name.h"
#include "engine/backing/file/file.h"
#include "engine/backing/http/http_name.h"
#include "engine/backing/image_kinds.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct image_config config;

static void
begin(void)
{
	memset(&config, 0xa5, sizeof(config));
	ck_assert_int_eq(options_init(image_option_rows, &config), 0);
}

static void
assert_set(const char *name, const char *value)
{
	char *error = NULL;
	int r = option_set(image_option_rows, &config, name, value, &error);

	ck_assert_msg(r == 0, "%s=%s: %s", name, value, error);
}

static void
assert_refused(const char *name, const char *value, int result)
{
	struct image_config before = config;
	char *error = NULL;

	ck_assert_msg(option_set(image_option_rows, &config, name, value, &error) == result,
		      "%s=%s", name, value);
	ck_assert_msg(error && strstr(error, name) && strstr(error, value), "%s=%s: %s", name,
		      value, error);
	ck_assert_mem_eq(&config, &before, sizeof(config));
	free(error);
}

START_TEST(defaults_are_those_of_the_manual)
{
	ck_assert_uint_eq(config.offset, 0);
	ck_assert_uint_eq(config.sizelimit, 0);
	ck_assert_uint_eq(config.sector_size, 0);
	ck_assert_uint_eq(config.direct_io, TRISTATE_AUTO);
	ck_assert_uint_eq(config.page_cache, PAGE_CACHE_AUTO);
	ck_assert_uint_eq(config.engine, ENGINE_AUTO);
	ck_assert_uint_eq(config.poll, TRISTATE_OFF);
	ck_assert_uint_eq(config.contexts, 0);
	ck_assert_uint_eq(config.depth, 8);
	ck_assert_uint_eq(config.discard, TRISTATE_ON);
	ck_assert_uint_eq(config.lock, LOCK_AUTO);
}
END_TEST

/* An option, a text and the value that the engine must get. */
struct choice_row {
	const char *name, *text;
	const unsigned int *field;
	unsigned int value;
};

static const struct choice_row choice_rows[] = {
	{"direct-io", "off", &config.direct_io, TRISTATE_OFF},
	{"direct-io", "on", &config.direct_io, TRISTATE_ON},
	{"direct-io", "auto", &config.direct_io, TRISTATE_AUTO},
	{"page-cache", "keep", &config.page_cache, PAGE_CACHE_KEEP},
	{"page-cache", "drop", &config.page_cache, PAGE_CACHE_DROP},
	{"page-cache", "auto", &config.page_cache, PAGE_CACHE_AUTO},
	{"engine", "auto", &config.engine, ENGINE_AUTO},
	{"engine", "io_uring", &config.engine, ENGINE_IO_URING},
	{"engine", "aio", &config.engine, ENGINE_AIO},
	{"engine", "threads", &config.engine, ENGINE_THREADS},
	{"poll", "off", &config.poll, TRISTATE_OFF},
	{"poll", "on", &config.poll, TRISTATE_ON},
	{"poll", "auto", &config.poll, TRISTATE_AUTO},
	{"discard", "off", &config.discard, TRISTATE_OFF},
	{"discard", "on", &config.discard, TRISTATE_ON},
	{"lock", "off", &config.lock, LOCK_OFF},
	{"lock", "shared", &config.lock, LOCK_SHARED},
	{"lock", "exclusive", &config.lock, LOCK_EXCLUSIVE},
	{"lock", "auto", &config.lock, LOCK_AUTO},
	{"contexts", "0", &config.contexts, 0},
	{"contexts", "4096", &config.contexts, 4096},
	{"depth", "1", &config.depth, 1},
	{"depth", "128", &config.depth, 128},
};

START_TEST(each_text_sets_its_own_field_to_its_value)
{
	const struct choice_row *row = &choice_rows[_i];

	assert_set(row->name, row->text);
	ck_assert_uint_eq(*row->field, row->value);
}
END_TEST

START_TEST(sizes_take_units)
{
	assert_set("offset", "1M");
	assert_set("sizelimit", "10KB");
	ck_assert_uint_eq(config.offset, 1 << 20);
	ck_assert_uint_eq(config.sizelimit, 10000);
}
END_TEST

START_TEST(sector_size_is_one_of_five)
{
	static const char *const texts[] = {"512", "1024", "2048", "4096"};

	for (unsigned int i = 0; i < 4; i++) {
		assert_set("sector-size", texts[i]);
		ck_assert_uint_eq(config.sector_size, 512u << i);
	}
	assert_set("sector-size", "1");
	ck_assert_uint_eq(config.sector_size, 1);
	assert_set("sector-size", "4k");
	ck_assert_uint_eq(config.sector_size, 4096);
	assert_refused("sector-size", "2", -EINVAL);
	assert_refused("sector-size", "256", -EINVAL);
	assert_refused("sector-size", "513", -EINVAL);
	assert_refused("sector-size", "8192", -EINVAL);
}
END_TEST

START_TEST(what_the_engine_cannot_do_is_refused)
{
	assert_refused("depth", "0", -ERANGE);
	assert_refused("depth", "129", -ERANGE);
	assert_refused("contexts", "4097", -ERANGE);
	assert_refused("contexts", "-1", -EINVAL);
	assert_refused("offset", "-1", -EINVAL);
	assert_refused("direct-io", "maybe", -EINVAL);
	assert_refused("page-cache", "off", -EINVAL);
	assert_refused("discard", "auto", -EINVAL);
	assert_refused("engine", "libaio", -EINVAL);
	assert_refused("lock", "none", -EINVAL);
}
END_TEST

START_TEST(every_option_is_explained)
{
	unsigned int count = 0;

	for (const struct option_row *row = image_option_rows; row->name; row++, count++) {
		ck_assert_msg(row->help && *row->help, "%s has no help", row->name);
		ck_assert_msg(row->arg && *row->arg, "%s has no argument", row->name);
	}
	ck_assert_uint_eq(count, 24);
}
END_TEST

/* A row says by its help that it is only for these. */
START_TEST(options_for_one_kind_are_known)
{
	unsigned int count = 0;

	for (const struct option_row *row = image_option_rows; row->name; row++) {
		const char *value = row->type == OPTION_UINT ? "5" : "start";
		const struct image_kind *kind = image_kind_of_option(row->name);
		struct image_config initial, changed;
		char *error = NULL;

		if (strstr(row->help, "Ceph"))
			ck_assert_ptr_eq(kind, &image_kind_ceph);
		else if (strstr(row->help, "web server"))
			ck_assert_ptr_eq(kind, &image_kind_http);
		else
			ck_assert(!kind || kind == &image_kind_file);
		if (!kind || kind == &image_kind_file)
			continue;
		count++;
		ck_assert_int_eq(options_init(image_option_rows, &initial), 0);
		ck_assert_int_eq(options_init(image_option_rows, &changed), 0);
		ck_assert_ptr_null(image_kind_option(kind, &changed, &initial));
		ck_assert_ptr_null(image_kind_option(kind, &changed, NULL));
		ck_assert_int_eq(option_set(image_option_rows, &changed, row->name, value, &error),
				 0);
		ck_assert_str_eq(image_kind_option(kind, &changed, &initial), row->name);
		ck_assert_ptr_null(image_kind_option(kind, &changed, &changed));
		options_free(image_option_rows, &changed);
		options_free(image_option_rows, &initial);
	}
	ck_assert_uint_eq(count, 8);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "rows", .begin = begin},
		{.test = defaults_are_those_of_the_manual},
		{.test = each_text_sets_its_own_field_to_its_value,
		 .last = sizeof(choice_rows) / sizeof(choice_rows[0])},
		{.test = sizes_take_units},
		{.test = sector_size_is_one_of_five},
		{.test = what_the_engine_cannot_do_is_refused},
		{.test = every_option_is_explained},
		{.test = options_for_one_kind_are_known},
		{0},
	};

	return suite_run("config", cases);
}
