/* SPDX-License-Identifier: BSD-3-Clause */
/* The options NBD_OPT_LIST_META_CONTEXT and NBD_OPT_SET_META_CONTEXT. */
#include "nbd/option.h"

#include "nbd/wire.h"
#include "tests/lib/suite.h"
#include "tests/unit/nbd/nbd_talk.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define DISK_FLAGS 0x0d6d
#define WITH_DF    0x0ded

static const uint8_t zeroes[NBD_OPTION_MAX];

/* LIST and SET have the same replies. */
static const uint32_t list_and_set[] = {NBD_OPT_LIST_META_CONTEXT, NBD_OPT_SET_META_CONTEXT};

static void
run_more(void)
{
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_MORE);
}

/* The server is in step, and the client may enter the transmission phase. */
static void
assert_go_works(bool allocation)
{
	talk_go(NBD_OPT_GO, "disk", 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_TRANSMISSION);
	talk_expect_export(NBD_OPT_GO, talk_disk.size,
			   talk_handshake.session.form == NBD_FORM_SIMPLE ? DISK_FLAGS : WITH_DF);
	talk_expect(NBD_OPT_GO, NBD_REP_ACK, NULL);
	talk_expect_silence();
	ck_assert_ptr_eq(talk_handshake.session.export, &talk_disk);
	ck_assert_int_eq(talk_handshake.session.allocation, allocation);
	ck_assert_uint_eq(talk_joined, 1);
}

/* ---- Metadata contexts */

static void
say_structured(void)
{
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	run_more();
	talk_expect(NBD_OPT_STRUCTURED_REPLY, NBD_REP_ACK, NULL);
}

/* The reply to the last option: base:allocation or nothing. */
static void
expect_context(uint32_t option, bool selected)
{
	struct talk_reply reply;

	run_more();
	if (selected) {
		talk_expect(option, NBD_REP_META_CONTEXT, &reply);
		ck_assert_uint_eq(reply.length, 4 + 15);
		ck_assert_uint_eq(wire_load32(reply.data),
				  option == NBD_OPT_SET_META_CONTEXT ? NBD_ALLOCATION_ID : 0);
		ck_assert_mem_eq(reply.data + 4, "base:allocation", 15);
	}
	talk_expect(option, NBD_REP_ACK, NULL);
	talk_expect_silence();
}

START_TEST(no_query_lists_all_and_selects_none)
{
	say_structured();
	talk_context(NBD_OPT_LIST_META_CONTEXT, "disk", 0);
	expect_context(NBD_OPT_LIST_META_CONTEXT, true);
	talk_context(NBD_OPT_SET_META_CONTEXT, "disk", 0);
	expect_context(NBD_OPT_SET_META_CONTEXT, false);
	assert_go_works(false);
}
END_TEST

START_TEST(namespace_alone_lists_all_and_selects_none)
{
	say_structured();
	talk_context(NBD_OPT_LIST_META_CONTEXT, "disk", 1, "base:");
	expect_context(NBD_OPT_LIST_META_CONTEXT, true);
	talk_context(NBD_OPT_SET_META_CONTEXT, "disk", 1, "base:");
	expect_context(NBD_OPT_SET_META_CONTEXT, false);
	assert_go_works(false);
}
END_TEST

START_TEST(allocation_is_listed_and_selected)
{
	say_structured();
	talk_context(NBD_OPT_LIST_META_CONTEXT, "disk", 1, "base:allocation");
	expect_context(NBD_OPT_LIST_META_CONTEXT, true);
	talk_context(NBD_OPT_SET_META_CONTEXT, "disk", 1, "base:allocation");
	expect_context(NBD_OPT_SET_META_CONTEXT, true);
	assert_go_works(true);
}
END_TEST

START_TEST(listing_selects_nothing)
{
	say_structured();
	talk_context(NBD_OPT_LIST_META_CONTEXT, "disk", 1, "base:allocation");
	expect_context(NBD_OPT_LIST_META_CONTEXT, true);
	assert_go_works(false);
}
END_TEST

START_TEST(allocation_is_selected_once_among_others)
{
	say_structured();
	talk_context(NBD_OPT_SET_META_CONTEXT, "disk", 6, "qemu:allocation-depth",
		     "base:allocation", "x-a:b", "base:", "base:allocation", "");
	expect_context(NBD_OPT_SET_META_CONTEXT, true);
	assert_go_works(true);
}
END_TEST

START_TEST(unknown_queries_are_ignored)
{
	static const char *const queries[] = {"base:allocatio",
					      "base:allocation ",
					      "base:Allocation",
					      "base",
					      "Base:allocation",
					      "allocation",
					      ":",
					      "",
					      "x-unknown:",
					      "bas:allocation"};

	say_structured();
	for (size_t i = 0; i < 2; i++) {
		talk_context(list_and_set[i], "disk", 1, queries[_i]);
		expect_context(list_and_set[i], false);
	}
	assert_go_works(false);
}
END_TEST

START_TEST(export_without_contexts_has_none)
{
	say_structured();
	for (size_t i = 0; i < 2; i++) {
		talk_context(list_and_set[i], "cd", 1, "base:allocation");
		expect_context(list_and_set[i], false);
	}
	talk_context(NBD_OPT_LIST_META_CONTEXT, "cd", 0);
	expect_context(NBD_OPT_LIST_META_CONTEXT, false);
}
END_TEST

START_TEST(contexts_of_an_unknown_export_are_an_error)
{
	say_structured();
	for (size_t i = 0; i < 2; i++) {
		talk_context(list_and_set[i], "disc", 1, "base:allocation");
		run_more();
		talk_expect_error(list_and_set[i], NBD_REP_ERR_UNKNOWN, "no export");
	}
	assert_go_works(false);
}
END_TEST

START_TEST(contexts_of_a_refused_export_are_an_error)
{
	talk_refusal = (struct nbd_refusal){NBD_REP_ERR_POLICY, "not for you", false};
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	talk_context(NBD_OPT_LIST_META_CONTEXT, "disk", 0);
	talk_context(NBD_OPT_SET_META_CONTEXT, "disk", 1, "base:allocation");
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_MORE);
	talk_expect(NBD_OPT_STRUCTURED_REPLY, NBD_REP_ACK, NULL);
	talk_expect_error(NBD_OPT_LIST_META_CONTEXT, NBD_REP_ERR_POLICY, "not for you");
	talk_expect_error(NBD_OPT_SET_META_CONTEXT, NBD_REP_ERR_POLICY, "not for you");
	talk_expect_silence();
	ck_assert(!talk_handshake.context);
}
END_TEST

START_TEST(context_needs_replies_in_chunks)
{
	talk_flags(TALK_FIXED);
	talk_context(NBD_OPT_SET_META_CONTEXT, "disk", 1, "base:allocation");
	run_more();
	talk_expect_error(NBD_OPT_SET_META_CONTEXT, NBD_REP_ERR_INVALID, "structured");
	assert_go_works(false);
}
END_TEST

START_TEST(extended_headers_are_enough_for_a_context)
{
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_EXTENDED_HEADERS, NULL, 0);
	run_more();
	talk_expect(NBD_OPT_EXTENDED_HEADERS, NBD_REP_ACK, NULL);
	talk_context(NBD_OPT_SET_META_CONTEXT, "disk", 1, "base:allocation");
	expect_context(NBD_OPT_SET_META_CONTEXT, true);
	assert_go_works(true);
}
END_TEST

START_TEST(context_is_bound_to_the_name_of_its_export)
{
	say_structured();
	talk_context(NBD_OPT_SET_META_CONTEXT, _i ? "" : talk_longest.name, 1, "base:allocation");
	expect_context(NBD_OPT_SET_META_CONTEXT, true);
	assert_go_works(false);
}
END_TEST

START_TEST(context_survives_other_options)
{
	say_structured();
	talk_context(NBD_OPT_SET_META_CONTEXT, "disk", 1, "base:allocation");
	expect_context(NBD_OPT_SET_META_CONTEXT, true);
	talk_go(NBD_OPT_INFO, "cd", 0);
	talk_go(NBD_OPT_GO, "unknown", 0);
	talk_option(99, NULL, 0);
	talk_context(NBD_OPT_LIST_META_CONTEXT, "cd", 0);
	talk_option(NBD_OPT_EXTENDED_HEADERS, NULL, 0);
	run_more();
	talk_expect(NBD_OPT_INFO, NBD_REP_INFO, NULL);
	talk_expect(NBD_OPT_INFO, NBD_REP_ACK, NULL);
	talk_expect(NBD_OPT_GO, NBD_REP_ERR_UNKNOWN, NULL);
	talk_expect(99, NBD_REP_ERR_UNSUP, NULL);
	talk_expect(NBD_OPT_LIST_META_CONTEXT, NBD_REP_ACK, NULL);
	talk_expect(NBD_OPT_EXTENDED_HEADERS, NBD_REP_ACK, NULL);
	assert_go_works(true);
}
END_TEST

START_TEST(context_counts_for_export_name)
{
	say_structured();
	talk_context(NBD_OPT_SET_META_CONTEXT, "disk", 1, "base:allocation");
	expect_context(NBD_OPT_SET_META_CONTEXT, true);
	talk_option(NBD_OPT_EXPORT_NAME, "disk", 4);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_TRANSMISSION);
	ck_assert(talk_handshake.session.allocation);
}
END_TEST

START_TEST(failed_or_empty_selection_voids_the_one_before)
{
	static const uint8_t malformed[] = {0, 0, 0, 4, 'd', 'i', 's', 'k', 0, 0, 0, 1};

	say_structured();
	talk_context(NBD_OPT_SET_META_CONTEXT, "disk", 1, "base:allocation");
	expect_context(NBD_OPT_SET_META_CONTEXT, true);
	switch (_i) {
	case 0: talk_option(NBD_OPT_SET_META_CONTEXT, malformed, sizeof(malformed)); break;
	case 1: talk_context(NBD_OPT_SET_META_CONTEXT, "unknown", 1, "base:allocation"); break;
	case 2: talk_context(NBD_OPT_SET_META_CONTEXT, "disk", 0); break;
	case 3: talk_option(NBD_OPT_SET_META_CONTEXT, zeroes, sizeof(zeroes)); break;
	case 4: talk_context(NBD_OPT_SET_META_CONTEXT, "cd", 1, "base:allocation"); break;
	case 5:
		talk_option_header(NBD_OPT_SET_META_CONTEXT, NBD_OPTION_MAX + 1);
		talk_bytes(zeroes, sizeof(zeroes));
		talk_bytes(zeroes, 1);
		break;
	}
	run_more();
	talk_expect(NBD_OPT_SET_META_CONTEXT,
		    _i == 0 || _i == 3 ? NBD_REP_ERR_INVALID
		    : _i == 1          ? NBD_REP_ERR_UNKNOWN
		    : _i == 5          ? NBD_REP_ERR_TOO_BIG
				       : NBD_REP_ACK,
		    NULL);
	assert_go_works(false);
}
END_TEST

/* A selection that is cut at every byte, and one with extra bytes. */
START_TEST(context_of_a_wrong_length_is_an_error)
{
	static const char good[] = "\0\0\0\4disk\0\0\0\2\0\0\0\5base:\0\0\0\17base:allocation";
	static const uint32_t right = sizeof(good) - 1;

	say_structured();
	for (uint32_t length = 0; length <= right + 1; length++)
		if (length != right)
			talk_option(list_and_set[_i], good, length);
	run_more();
	for (uint32_t length = 0; length <= right + 1; length++)
		if (length != right)
			talk_expect_error(list_and_set[_i], NBD_REP_ERR_INVALID, "malformed");
	ck_assert_uint_eq(talk_found, 0);
	talk_option(list_and_set[_i], good, right);
	expect_context(list_and_set[_i], true);
}
END_TEST

START_TEST(context_whose_lengths_disagree_is_an_error)
{
	static const struct {
		uint32_t name, queries, query;
	} bad[] = {{3, 1, 15},          {5, 1, 15},          {4, 0, 15},
		   {4, 2, 15},          {4, 0xffffffff, 15}, {4, 1, 14},
		   {4, 1, 16},          {4, 1, 0xffffffff},  {4, 1, 0xfffffffc},
		   {0xffffffff, 1, 15}, {0xfffffff8, 1, 15}, {4097, 1, 15},
		   {4, 1, 4097}};

	say_structured();
	for (size_t i = 0; i < 2; i++) {
		talk_option_header(list_and_set[i], 4 + 4 + 4 + 4 + 15);
		talk_number(bad[_i].name, 4);
		talk_bytes("disk", 4);
		talk_number(bad[_i].queries, 4);
		talk_number(bad[_i].query, 4);
		talk_bytes("base:allocation", 15);
		run_more();
		talk_expect_error(list_and_set[i], NBD_REP_ERR_INVALID, "malformed");
	}
	ck_assert_uint_eq(talk_found, 0);
	assert_go_works(false);
}
END_TEST

START_TEST(query_longer_than_a_string_may_be_is_an_error)
{
	say_structured();
	talk_option_header(NBD_OPT_LIST_META_CONTEXT, 4 + 4 + 4 + NBD_STRING_MAX + 1);
	talk_number(0, 4);
	talk_number(1, 4);
	talk_number(NBD_STRING_MAX + 1, 4);
	talk_bytes(zeroes, NBD_STRING_MAX + 1);
	run_more();
	talk_expect_error(NBD_OPT_LIST_META_CONTEXT, NBD_REP_ERR_INVALID, "malformed");
	assert_go_works(false);
}
END_TEST

START_TEST(many_empty_queries_are_taken)
{
	uint32_t queries = (NBD_OPTION_MAX - 8) / 4;

	say_structured();
	talk_option_header(NBD_OPT_SET_META_CONTEXT, 8 + 4 * queries);
	talk_number(0, 4);
	talk_number(queries, 4);
	for (uint32_t i = 0; i < queries; i++)
		talk_number(0, 4);
	expect_context(NBD_OPT_SET_META_CONTEXT, false);
	assert_go_works(false);
}
END_TEST

/* ---- dirty bitmaps */

/* "disk" has a few, the others none. */
static uint32_t
bitmap(void *data, const struct nbd_export *export, size_t n, char name[NBD_BITMAP_NAME_MAX + 1])
{
	static const char *const names[] = {"monday", "tuesday", NULL};

	ck_assert_ptr_eq(data, &talk_config);
	if (export != &talk_disk || n > 2)
		return 0;
	if (n < 2) {
		strcpy(name, names[n]);
	} else {
		memset(name, 'n', NBD_BITMAP_NAME_MAX);
		name[NBD_BITMAP_NAME_MAX] = '\0';
	}
	return 70 + (uint32_t)n;
}

static void
expect_bitmap(uint32_t option, uint32_t id, const char *name)
{
	struct talk_reply reply;

	talk_expect(option, NBD_REP_META_CONTEXT, &reply);
	ck_assert_uint_eq(reply.length, 4 + strlen(name));
	ck_assert_uint_eq(wire_load32(reply.data), id);
	ck_assert_mem_eq(reply.data + 4, name, strlen(name));
}

START_TEST(bitmaps_are_listed)
{
	static const char *const queries[] = {"qemu:", "qemu:dirty-bitmap:"};

	talk_source.bitmap = bitmap;
	say_structured();
	for (size_t i = 0; i < 2; i++) {
		talk_context(NBD_OPT_LIST_META_CONTEXT, "disk", 1, queries[i]);
		run_more();
		expect_bitmap(NBD_OPT_LIST_META_CONTEXT, 0, "qemu:dirty-bitmap:monday");
		expect_bitmap(NBD_OPT_LIST_META_CONTEXT, 0, "qemu:dirty-bitmap:tuesday");
		talk_expect(NBD_OPT_LIST_META_CONTEXT, NBD_REP_META_CONTEXT, NULL);
		talk_expect(NBD_OPT_LIST_META_CONTEXT, NBD_REP_ACK, NULL);
	}
	talk_context(NBD_OPT_LIST_META_CONTEXT, "disk", 1, "qemu:dirty-bitmap:tuesday");
	run_more();
	expect_bitmap(NBD_OPT_LIST_META_CONTEXT, 0, "qemu:dirty-bitmap:tuesday");
	talk_expect(NBD_OPT_LIST_META_CONTEXT, NBD_REP_ACK, NULL);
	talk_expect_silence();
	assert_go_works(false);
	ck_assert_uint_eq(talk_handshake.session.bitmap_count, 0);
}
END_TEST

START_TEST(bitmaps_are_selected_by_their_names_only)
{
	talk_source.bitmap = bitmap;
	say_structured();
	talk_context(NBD_OPT_SET_META_CONTEXT, "disk", 6,
		     "qemu:", "qemu:dirty-bitmap:", "qemu:dirty-bitmap:sunday",
		     "qemu:dirty-bitmap:tuesday", "base:allocation", "qemu:dirty-bitmap:tuesday");
	run_more();
	expect_bitmap(NBD_OPT_SET_META_CONTEXT, NBD_ALLOCATION_ID, "base:allocation");
	expect_bitmap(NBD_OPT_SET_META_CONTEXT, 71, "qemu:dirty-bitmap:tuesday");
	talk_expect(NBD_OPT_SET_META_CONTEXT, NBD_REP_ACK, NULL);
	talk_expect_silence();
	assert_go_works(true);
	ck_assert_uint_eq(talk_handshake.session.bitmap_count, 1);
	ck_assert_uint_eq(talk_handshake.session.bitmaps[0], 71);
}
END_TEST

START_TEST(selected_bitmap_is_void_after_another_selection_and_for_another_export)
{
	talk_source.bitmap = bitmap;
	say_structured();
	talk_context(NBD_OPT_SET_META_CONTEXT, _i ? "disk" : "", 1, "qemu:dirty-bitmap:monday");
	run_more();
	expect_bitmap(NBD_OPT_SET_META_CONTEXT, 70, "qemu:dirty-bitmap:monday");
	talk_expect(NBD_OPT_SET_META_CONTEXT, NBD_REP_ACK, NULL);
	if (_i) {
		talk_context(NBD_OPT_SET_META_CONTEXT, "disk", 1, "base:allocation");
		expect_context(NBD_OPT_SET_META_CONTEXT, true);
	}
	assert_go_works(_i);
	ck_assert_uint_eq(talk_handshake.session.bitmap_count, 0);
}
END_TEST

static const char *
bitmap_problem(void *data, const struct nbd_export *export, const char *name, size_t length)
{
	ck_assert(data == &talk_config && export == &talk_disk);
	return length == 6 && memcmp(name, "sunday", 6) == 0 ? "take a full backup" : NULL;
}

START_TEST(bitmap_with_a_problem_is_refused_with_words)
{
	struct talk_reply reply;

	talk_source.bitmap = bitmap;
	talk_source.bitmap_problem = bitmap_problem;
	say_structured();
	talk_context(NBD_OPT_SET_META_CONTEXT, "disk", 2, "qemu:dirty-bitmap:monday",
		     "qemu:dirty-bitmap:sunday");
	run_more();
	talk_expect(NBD_OPT_SET_META_CONTEXT, NBD_REP_ERR_INVALID, &reply);
	ck_assert_mem_eq(reply.data, "take a full backup", reply.length);
	talk_expect_silence();
	assert_go_works(false);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "context", .begin = talk_begin, .end = talk_end},
		{.test = no_query_lists_all_and_selects_none},
		{.test = namespace_alone_lists_all_and_selects_none},
		{.test = allocation_is_listed_and_selected},
		{.test = listing_selects_nothing},
		{.test = allocation_is_selected_once_among_others},
		{.test = unknown_queries_are_ignored, .last = 10},
		{.test = export_without_contexts_has_none},
		{.test = contexts_of_an_unknown_export_are_an_error},
		{.test = contexts_of_a_refused_export_are_an_error},
		{.test = context_needs_replies_in_chunks},
		{.test = extended_headers_are_enough_for_a_context},
		{.test = context_is_bound_to_the_name_of_its_export, .last = 2},
		{.test = context_survives_other_options},
		{.test = context_counts_for_export_name},
		{.test = failed_or_empty_selection_voids_the_one_before, .last = 6},
		{.test = context_of_a_wrong_length_is_an_error, .last = 2},
		{.test = context_whose_lengths_disagree_is_an_error, .last = 13},
		{.test = query_longer_than_a_string_may_be_is_an_error},
		{.test = bitmaps_are_listed},
		{.test = bitmaps_are_selected_by_their_names_only},
		{.test = bitmap_with_a_problem_is_refused_with_words},
		{.test = selected_bitmap_is_void_after_another_selection_and_for_another_export,
		 .last = 2},
		{.test = many_empty_queries_are_taken},
		{0},
	};

	return suite_run("nbd_context", cases);
}
