/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exports that may be offered to clients, and their strings.
 */
#include "nbd/export.h"

#include "nbd/protocol.h"
#include "nbd/text.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct nbd_export export;
static char text[NBD_STRING_MAX + 2];

static void
begin(void)
{
	export = (struct nbd_export){
		.name = "",
		.size = 1,
		.min_block = 1,
		.preferred_block = 4096,
		.max_payload = NBD_PAYLOAD_DEFAULT,
	};
	memset(text, 'x', sizeof(text) - 1);
}

static void
assert_problem(const char *hint)
{
	const char *problem = nbd_export_problem(&export);

	ck_assert_msg(problem && strstr(problem, hint), "'%s' doesn't tell '%s'",
		      problem ? problem : "nothing", hint);
}

START_TEST(good_export_has_no_problem)
{
	ck_assert_ptr_null(nbd_export_problem(&export));
	export.description = export.name = text + 1;
	export.min_block = export.preferred_block = 65536;
	export.flags = NBD_EXPORT_FLAGS;
	ck_assert_ptr_null(nbd_export_problem(&export));
	export.preferred_block = export.max_payload = 32u << 20;
	ck_assert_ptr_null(nbd_export_problem(&export));
}
END_TEST

START_TEST(name_is_needed)
{
	export.name = NULL;
	assert_problem("no name");
}
END_TEST

START_TEST(strings_have_4096_bytes)
{
	export.name = text;
	assert_problem("4096");
	export.name = "";
	export.description = text;
	assert_problem("4096");
}
END_TEST

START_TEST(strings_are_utf8)
{
	export.name = "caf\xe9";
	assert_problem("UTF-8");
	export.name = "caf\xc3\xa9";
	ck_assert_ptr_null(nbd_export_problem(&export));
	export.description = "\x80";
	assert_problem("UTF-8");
}
END_TEST

START_TEST(minimum_block_is_a_power_of_two_up_to_64k)
{
	static const uint32_t bad[] = {0, 3, 511, 513, 65537, 131072, UINT32_MAX};

	export.preferred_block = 1u << 20;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		export.min_block = bad[i];
		assert_problem("minimum block");
	}
}
END_TEST

START_TEST(preferred_block_is_a_power_of_two_not_below_the_minimum)
{
	static const uint32_t bad[] = {0, 256, 1000, 4097, UINT32_MAX};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		export.preferred_block = bad[i];
		assert_problem("preferred block");
	}
	export.min_block = 8192;
	export.preferred_block = 4096;
	assert_problem("preferred block");
}
END_TEST

START_TEST(maximum_payload_is_not_below_the_preferred_block)
{
	export.max_payload = (1u << 20) - 1;
	assert_problem("maximum payload");
	export.max_payload = 1u << 20;
	ck_assert_ptr_null(nbd_export_problem(&export));
	export.preferred_block = 1u << 21;
	assert_problem("maximum payload");
	export.max_payload = UINT32_MAX;
	ck_assert_ptr_null(nbd_export_problem(&export));
}
END_TEST

START_TEST(flags_of_the_session_are_not_the_exports)
{
	static const unsigned int bad[] = {NBD_FLAG_HAS_FLAGS,
					   NBD_FLAG_SEND_DF,
					   NBD_FLAG_SEND_RESIZE,
					   NBD_FLAG_BLOCK_STATUS_PAYLOAD,
					   1u << 13,
					   1u << 14,
					   1u << 15};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		export.flags = (uint16_t)bad[i];
		assert_problem("flags");
		ck_assert_uint_eq(nbd_export_flags(&export, false, false), NBD_FLAG_HAS_FLAGS);
	}
}
END_TEST

START_TEST(df_goes_with_chunks)
{
	ck_assert_uint_eq(nbd_export_flags(&export, false, false), NBD_FLAG_HAS_FLAGS);
	ck_assert_uint_eq(nbd_export_flags(&export, false, true),
			  NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_DF);
}
END_TEST

START_TEST(read_only_export_offers_nothing_that_writes)
{
	export.flags = NBD_EXPORT_FLAGS;
	ck_assert_uint_eq(nbd_export_flags(&export, false, false),
			  NBD_FLAG_HAS_FLAGS | NBD_FLAG_READ_ONLY | NBD_FLAG_SEND_FLUSH |
				  NBD_FLAG_SEND_FUA | NBD_FLAG_ROTATIONAL |
				  NBD_FLAG_CAN_MULTI_CONN | NBD_FLAG_SEND_CACHE);
}
END_TEST

START_TEST(client_that_may_only_read_is_offered_what_a_read_only_export_offers)
{
	uint16_t flags;

	export.flags = NBD_EXPORT_FLAGS;
	flags = nbd_export_flags(&export, false, true);
	export.flags &= (uint16_t)~NBD_FLAG_READ_ONLY;
	ck_assert_uint_eq(nbd_export_flags(&export, true, true), flags);
	ck_assert_uint_ne(nbd_export_flags(&export, false, true), flags);
}
END_TEST

START_TEST(fast_zeroes_need_zeroes)
{
	export.flags = NBD_FLAG_SEND_FAST_ZERO;
	ck_assert_uint_eq(nbd_export_flags(&export, false, false), NBD_FLAG_HAS_FLAGS);
	export.flags |= NBD_FLAG_SEND_WRITE_ZEROES;
	ck_assert_uint_eq(nbd_export_flags(&export, false, false),
			  NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_WRITE_ZEROES |
				  NBD_FLAG_SEND_FAST_ZERO);
}
END_TEST

START_TEST(valid_text_is_told_from_invalid)
{
	static const char *const good[] = {"",
					   "a",
					   "\x7f",
					   "\xc2\x80",
					   "\xdf\xbf",
					   "\xe0\xa0\x80",
					   "\xed\x9f\xbf",
					   "\xee\x80\x80",
					   "\xef\xbf\xbf",
					   "\xf0\x90\x80\x80",
					   "\xf4\x8f\xbf\xbf"};
	static const char *const bad[] = {"\x80",
					  "\xbf",
					  "\xc0\x80",
					  "\xc1\xbf",
					  "\xc2",
					  "\xc2!",
					  "\xe0\x9f\xbf",
					  "\xe1\x80",
					  "\xed\xa0\x80",
					  "\xed\xbf\xbf",
					  "\xf0\x8f\xbf\xbf",
					  "\xf4\x90\x80\x80",
					  "\xf5\x80\x80\x80",
					  "\x9f\xbf",
					  "\xf9\x80\x80\x80",
					  "\xf8\x88\x80\x80\x80",
					  "\xff",
					  "ok\xfe"};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		ck_assert_msg(nbd_text_valid(good[i], strlen(good[i])), "good text %zu", i);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(!nbd_text_valid(bad[i], strlen(bad[i])), "bad text %zu", i);
	/* The string's end counts, not the byte after it. */
	ck_assert(!nbd_text_valid("\xe2\x82\xac", 2));
	ck_assert(nbd_text_valid("a\0b", 3) == false);
}
END_TEST

START_TEST(cut_text_keeps_its_characters)
{
	ck_assert_uint_eq(nbd_text_cut("abc", 3), 3);
	ck_assert_uint_eq(nbd_text_cut("abc", 10), 3);
	ck_assert_uint_eq(nbd_text_cut("abc", 2), 2);
	ck_assert_uint_eq(nbd_text_cut("a\xe2\x82\xac", 4), 4);
	ck_assert_uint_eq(nbd_text_cut("a\xe2\x82\xac", 3), 1);
	ck_assert_uint_eq(nbd_text_cut("a\xe2\x82\xac", 2), 1);
	ck_assert_uint_eq(nbd_text_cut("\xe2\x82\xac", 1), 0);
	ck_assert_uint_eq(nbd_text_cut("", 0), 0);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "export", .begin = begin},
		{.test = good_export_has_no_problem},
		{.test = name_is_needed},
		{.test = strings_have_4096_bytes},
		{.test = strings_are_utf8},
		{.test = minimum_block_is_a_power_of_two_up_to_64k},
		{.test = preferred_block_is_a_power_of_two_not_below_the_minimum},
		{.test = maximum_payload_is_not_below_the_preferred_block},
		{.test = flags_of_the_session_are_not_the_exports},
		{.test = df_goes_with_chunks},
		{.test = read_only_export_offers_nothing_that_writes},
		{.test = client_that_may_only_read_is_offered_what_a_read_only_export_offers},
		{.test = fast_zeroes_need_zeroes},
		{.name = "text"},
		{.test = valid_text_is_told_from_invalid},
		{.test = cut_text_keeps_its_characters},
		{0},
	};

	return suite_run("nbd_export", cases);
}
