/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options INFO and GO.
 */
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

/* INFO and GO have the same replies. */
static const uint32_t info_and_go[] = {NBD_OPT_INFO, NBD_OPT_GO};

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

/* ---- INFO and GO */

START_TEST(go_tells_the_export_and_enters)
{
	talk_flags(TALK_FIXED);
	assert_go_works(false);
}
END_TEST

START_TEST(go_leaves_the_requests_behind_it)
{
	talk_flags(TALK_FIXED);
	talk_go(NBD_OPT_GO, "disk", 0);
	talk_bytes(zeroes, 28);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_TRANSMISSION);
	ck_assert_uint_eq(talk_left(), 28);
}
END_TEST

START_TEST(info_does_not_enter)
{
	talk_flags(TALK_FIXED);
	talk_go(NBD_OPT_INFO, "disk", 0);
	run_more();
	talk_expect_export(NBD_OPT_INFO, talk_disk.size, DISK_FLAGS);
	talk_expect(NBD_OPT_INFO, NBD_REP_ACK, NULL);
	talk_expect_silence();
	ck_assert_uint_eq(talk_joined, 0);
	ck_assert_ptr_null(talk_handshake.session.export);
	assert_go_works(false);
}
END_TEST

START_TEST(requested_information_is_given)
{
	struct talk_reply reply;
	uint32_t option = info_and_go[_i];

	talk_flags(TALK_FIXED);
	talk_go(option, "", 6, NBD_INFO_BLOCK_SIZE, 77, NBD_INFO_NAME, NBD_INFO_EXPORT, 65535,
		NBD_INFO_DESCRIPTION);
	talk_run();
	talk_expect_export(option, talk_disk.size, DISK_FLAGS);
	talk_expect_text(option, NBD_INFO_NAME, "disk");
	talk_expect_text(option, NBD_INFO_DESCRIPTION, "The disk");
	talk_expect(option, NBD_REP_INFO, &reply);
	ck_assert_uint_eq(reply.length, 14);
	ck_assert_uint_eq(wire_load16(reply.data), NBD_INFO_BLOCK_SIZE);
	ck_assert_uint_eq(wire_load32(reply.data + 2), 512);
	ck_assert_uint_eq(wire_load32(reply.data + 6), 4096);
	ck_assert_uint_eq(wire_load32(reply.data + 10), 32 << 20);
	talk_expect(option, NBD_REP_ACK, NULL);
	talk_expect_silence();
}
END_TEST

START_TEST(information_is_given_once)
{
	talk_flags(TALK_FIXED);
	talk_go(NBD_OPT_GO, "cd", 3, NBD_INFO_NAME, NBD_INFO_NAME, NBD_INFO_EXPORT);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_TRANSMISSION);
	talk_expect_export(NBD_OPT_GO, 2048, 0x051f);
	talk_expect_text(NBD_OPT_GO, NBD_INFO_NAME, "cd");
	talk_expect(NBD_OPT_GO, NBD_REP_ACK, NULL);
	talk_expect_silence();
}
END_TEST

START_TEST(missing_description_is_left_out)
{
	talk_flags(TALK_FIXED);
	talk_go(NBD_OPT_INFO, "cd", 1, NBD_INFO_DESCRIPTION);
	run_more();
	talk_expect_export(NBD_OPT_INFO, 2048, 0x051f);
	talk_expect(NBD_OPT_INFO, NBD_REP_ACK, NULL);
	talk_expect_silence();
}
END_TEST

START_TEST(longest_name_and_description_fit)
{
	uint32_t option = info_and_go[_i];

	talk_flags(TALK_FIXED);
	talk_go(option, talk_longest.name, 4, 0, 1, 2, 3);
	talk_run();
	talk_expect_export(option, 0, NBD_FLAG_HAS_FLAGS);
	talk_expect_text(option, NBD_INFO_NAME, talk_longest.name);
	talk_expect_text(option, NBD_INFO_DESCRIPTION, talk_longest.description);
	talk_expect(option, NBD_REP_INFO, NULL);
	talk_expect(option, NBD_REP_ACK, NULL);
	talk_expect_silence();
}
END_TEST

START_TEST(as_many_requests_as_fit_are_taken)
{
	unsigned int count = (NBD_OPTION_MAX - 6) / 2;

	talk_flags(TALK_FIXED);
	talk_option_header(NBD_OPT_GO, NBD_OPTION_MAX);
	talk_number(0, 4);
	talk_number(count, 2);
	for (unsigned int i = 0; i < count; i++)
		talk_number(NBD_INFO_EXPORT, 2);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_TRANSMISSION);
}
END_TEST

START_TEST(unknown_export_is_an_error)
{
	uint32_t option = info_and_go[_i];

	talk_flags(TALK_FIXED);
	talk_go(option, "disc", 1, NBD_INFO_NAME);
	run_more();
	talk_expect_error(option, NBD_REP_ERR_UNKNOWN, "no export of that name");
	talk_expect_silence();
	assert_go_works(false);
}
END_TEST

START_TEST(refused_export_has_the_servers_error)
{
	uint32_t option = info_and_go[_i];

	talk_refusal = (struct nbd_refusal){NBD_REP_ERR_POLICY, "not for you", false};
	talk_flags(TALK_FIXED);
	talk_go(option, "disk", 1, NBD_INFO_NAME);
	run_more();
	talk_expect_error(option, NBD_REP_ERR_POLICY, "not for you");
	talk_expect_silence();
	ck_assert_uint_eq(talk_joined, 0);
}
END_TEST

START_TEST(option_is_answered_when_its_export_can_be_found)
{
	uint32_t option = info_and_go[_i];

	talk_refusal = (struct nbd_refusal){NBD_REP_ERR_UNKNOWN, "never sent", true};
	talk_flags(TALK_FIXED);
	talk_go(option, "disk", 0);
	for (unsigned int i = 0; i < 3; i++) {
		ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_WAITS);
		talk_expect_silence();
	}
	ck_assert_uint_eq(talk_found, 3);
	talk_refusal = (struct nbd_refusal){0};
	ck_assert_int_eq(talk_run(),
			 option == NBD_OPT_GO ? NBD_HANDSHAKE_TRANSMISSION : NBD_HANDSHAKE_MORE);
	ck_assert_uint_eq(talk_joined, option == NBD_OPT_GO);
	talk_expect_export(option, talk_disk.size, DISK_FLAGS);
}
END_TEST

/* Others may write: the session's flags are those that its client was told. */
START_TEST(client_that_may_only_read_gets_no_flag_that_writes)
{
	uint16_t flags = DISK_FLAGS & ~(NBD_FLAG_SEND_TRIM | NBD_FLAG_SEND_WRITE_ZEROES |
					NBD_FLAG_SEND_FAST_ZERO);

	flags |= NBD_FLAG_READ_ONLY;
	talk_read_only = true;
	talk_flags(TALK_FIXED);
	talk_go(NBD_OPT_INFO, "disk", 0);
	talk_go(NBD_OPT_GO, "disk", 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_TRANSMISSION);
	talk_expect_export(NBD_OPT_INFO, talk_disk.size, flags);
	talk_expect(NBD_OPT_INFO, NBD_REP_ACK, NULL);
	talk_expect_export(NBD_OPT_GO, talk_disk.size, flags);
	talk_expect(NBD_OPT_GO, NBD_REP_ACK, NULL);
	ck_assert_uint_eq(talk_handshake.session.flags, flags);
}
END_TEST

START_TEST(name_with_a_nul_is_an_error)
{
	uint32_t option = info_and_go[_i];

	talk_flags(TALK_FIXED);
	talk_option_header(option, 6 + 6);
	talk_number(6, 4);
	talk_bytes("disk\0x", 6);
	talk_number(0, 2);
	run_more();
	talk_expect_error(option, NBD_REP_ERR_INVALID, "NUL");
	ck_assert_uint_eq(talk_found, 0);
	assert_go_works(false);
}
END_TEST

START_TEST(export_that_cannot_be_joined_is_an_error)
{
	static const uint32_t errors[] = {NBD_REP_ERR_POLICY, NBD_REP_ERR_UNKNOWN,
					  NBD_REP_ERR_SHUTDOWN};

	talk_join_error = errors[_i];
	talk_flags(TALK_FIXED);
	talk_go(NBD_OPT_INFO, "disk", 0);
	talk_go(NBD_OPT_GO, "disk", 1, NBD_INFO_NAME);
	run_more();
	talk_expect_export(NBD_OPT_INFO, talk_disk.size, DISK_FLAGS);
	talk_expect(NBD_OPT_INFO, NBD_REP_ACK, NULL);
	talk_expect_error(NBD_OPT_GO, errors[_i], "locked by somebody");
	talk_expect_silence();
	ck_assert_ptr_null(talk_handshake.session.export);
}
END_TEST

START_TEST(server_without_join_lets_everybody_in)
{
	talk_source.join = NULL;
	talk_flags(TALK_FIXED);
	talk_go(NBD_OPT_GO, "cd", 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_TRANSMISSION);
	ck_assert_ptr_eq(talk_handshake.session.export, &talk_cd);
}
END_TEST

/* "disk" with one information request, under each wrong length. */
START_TEST(go_of_a_wrong_length_is_an_error)
{
	static const uint8_t good[] = {0,   0, 0, 4, 'd',           'i', 's',
				       'k', 0, 1, 0, NBD_INFO_NAME, 0,   0};

	for (uint32_t option = NBD_OPT_INFO; option <= NBD_OPT_GO; option++) {
		talk_begin();
		talk_flags(TALK_FIXED);
		for (size_t length = 0; length <= sizeof(good); length++)
			if (length != 12)
				talk_option(option, good, length);
		run_more();
		for (size_t length = 0; length <= sizeof(good); length++)
			if (length != 12)
				talk_expect_error(option, NBD_REP_ERR_INVALID, "malformed");
		ck_assert_uint_eq(talk_found, 0);
		assert_go_works(false);
	}
}
END_TEST

START_TEST(go_whose_lengths_disagree_is_an_error)
{
	static const struct {
		uint32_t name;
		uint16_t infos;
	} bad[] = {{5, 0},          {3, 0},          {4, 1},          {4, 65535},
		   {0, 0},          {6, 0},          {7, 0},          {4097, 0},
		   {0x7fffffff, 0}, {0x80000000, 0}, {0xfffffffc, 0}, {0xffffffff, 0}};

	talk_flags(TALK_FIXED);
	talk_option_header(NBD_OPT_GO, 10);
	talk_number(bad[_i].name, 4);
	talk_bytes("disk", 4);
	talk_number(bad[_i].infos, 2);
	run_more();
	talk_expect_error(NBD_OPT_GO, NBD_REP_ERR_INVALID, "malformed");
	ck_assert_uint_eq(talk_found, 0);
	assert_go_works(false);
}
END_TEST

START_TEST(name_longer_than_a_string_may_be_is_an_error)
{
	talk_flags(TALK_FIXED);
	talk_option_header(NBD_OPT_GO, 6 + NBD_STRING_MAX + 1);
	talk_number(NBD_STRING_MAX + 1, 4);
	talk_bytes(talk_longest.name, NBD_STRING_MAX);
	talk_bytes("n\0\0", 3);
	run_more();
	talk_expect_error(NBD_OPT_GO, NBD_REP_ERR_INVALID, "malformed");
	assert_go_works(false);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "info", .begin = talk_begin, .end = talk_end},
		{.test = go_tells_the_export_and_enters},
		{.test = go_leaves_the_requests_behind_it},
		{.test = info_does_not_enter},
		{.test = requested_information_is_given, .last = 2},
		{.test = information_is_given_once},
		{.test = missing_description_is_left_out},
		{.test = longest_name_and_description_fit, .last = 2},
		{.test = as_many_requests_as_fit_are_taken},
		{.test = unknown_export_is_an_error, .last = 2},
		{.test = refused_export_has_the_servers_error, .last = 2},
		{.test = option_is_answered_when_its_export_can_be_found, .last = 2},
		{.test = client_that_may_only_read_gets_no_flag_that_writes},
		{.test = name_with_a_nul_is_an_error, .last = 2},
		{.test = export_that_cannot_be_joined_is_an_error, .last = 3},
		{.test = server_without_join_lets_everybody_in},
		{.test = go_of_a_wrong_length_is_an_error},
		{.test = go_whose_lengths_disagree_is_an_error, .last = 12},
		{.test = name_longer_than_a_string_may_be_is_an_error},
		{0},
	};

	return suite_run("nbd_option", cases);
}
