/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake: how options arrive, and the options that need no export's information.
 */
#include "nbd/handshake.h"

#include "nbd/wire.h"
#include "tests/lib/suite.h"
#include "tests/unit/nbd/nbd_talk.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t zeroes[200000];

/* The conversation ends here, for that reason. */
static void
assert_closed(const char *reason)
{
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_CLOSE);
	ck_assert_ptr_nonnull(talk_handshake.reason);
	ck_assert_msg(strstr(talk_handshake.reason, reason), "closed since %s",
		      talk_handshake.reason);
	talk_expect_silence();
}

/* The server is in step: it answers the next option. */
static void
assert_in_step(void)
{
	talk_option(NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_MORE);
	talk_expect(NBD_OPT_STRUCTURED_REPLY, NBD_REP_ACK, NULL);
	talk_expect_silence();
}

START_TEST(greeting_offers_fixed_newstyle_and_no_zeroes)
{
	uint8_t bytes[NBD_HANDSHAKE_ROOM];
	struct nbd_output output = {bytes, sizeof(bytes), 0};

	nbd_handshake_init(&talk_handshake, &talk_config);
	nbd_handshake_greet(&talk_handshake, &output);
	ck_assert_uint_eq(output.used, 18);
	ck_assert_mem_eq(bytes, "NBDMAGICIHAVEOPT\0\3", 18);
}
END_TEST

START_TEST(unknown_client_flag_closes)
{
	talk_flags(TALK_FIXED | 1u << 2);
	assert_closed("flag");
}
END_TEST

START_TEST(highest_client_flag_closes)
{
	talk_flags(TALK_FIXED | 1u << 31);
	assert_closed("flag");
}
END_TEST

START_TEST(option_without_its_magic_closes)
{
	talk_flags(TALK_FIXED);
	talk_bytes("IHAVEOPX", 8);
	talk_number(NBD_OPT_LIST, 4);
	talk_number(0, 4);
	assert_closed("does not begin as one");
}
END_TEST

START_TEST(unfinished_option_is_waited_for)
{
	talk_flags(TALK_FIXED);
	talk_option_header(NBD_OPT_INFO, 10);
	talk_bytes(zeroes, 9);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_MORE);
	talk_expect_silence();
}
END_TEST

START_TEST(export_name_tells_size_flags_and_zeroes)
{
	uint8_t reply[NBD_EXPORT_REPLY_SIZE + NBD_EXPORT_ZEROES] = {0};

	wire_store16(wire_store64(reply, talk_disk.size), 0x0d6d);
	talk_flags(NBD_FLAG_C_FIXED_NEWSTYLE);
	talk_option(NBD_OPT_EXPORT_NAME, "disk", 4);
	talk_bytes("request", 7);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_TRANSMISSION);
	ck_assert_uint_eq(talk_left(), 7);
	talk_expect_bytes(reply, sizeof(reply));
	talk_expect_silence();
	ck_assert_ptr_eq(talk_handshake.session.export, &talk_disk);
	ck_assert_uint_eq(talk_handshake.session.size, talk_disk.size);
	ck_assert_uint_eq(talk_handshake.session.max_payload, talk_disk.max_payload);
	ck_assert_uint_eq(talk_handshake.session.min_block, talk_disk.min_block);
	ck_assert_uint_eq(talk_handshake.session.flags, 0x0d6d);
	ck_assert_int_eq(talk_handshake.session.form, NBD_FORM_SIMPLE);
	ck_assert(!talk_handshake.session.allocation);
	ck_assert_uint_eq(talk_joined, 1);
}
END_TEST

START_TEST(no_zeroes_are_sent_when_so_agreed)
{
	uint8_t reply[NBD_EXPORT_REPLY_SIZE];

	/* Read-only: nothing that writes is offered. */
	wire_store16(wire_store64(reply, 2048), 0x051f);
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_EXPORT_NAME, "cd", 2);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_TRANSMISSION);
	talk_expect_bytes(reply, sizeof(reply));
	talk_expect_silence();
}
END_TEST

START_TEST(old_client_uses_the_default_export)
{
	talk_flags(0);
	talk_option(NBD_OPT_EXPORT_NAME, NULL, 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_TRANSMISSION);
	ck_assert_ptr_eq(talk_handshake.session.export, &talk_disk);
}
END_TEST

START_TEST(old_client_has_no_other_option)
{
	talk_flags(NBD_FLAG_C_NO_ZEROES);
	talk_option(NBD_OPT_LIST, NULL, 0);
	assert_closed("too old");
}
END_TEST

START_TEST(export_name_that_is_unknown_closes)
{
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_EXPORT_NAME, "dis", 3);
	assert_closed("no export of that name");
	ck_assert_uint_eq(talk_joined, 0);
}
END_TEST

START_TEST(export_name_that_is_refused_closes)
{
	talk_refusal = (struct nbd_refusal){NBD_REP_ERR_POLICY, "not for you", false};
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_EXPORT_NAME, "disk", 4);
	assert_closed("not for you");
	ck_assert_uint_eq(talk_joined, 0);
}
END_TEST

START_TEST(export_name_with_a_nul_closes)
{
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_EXPORT_NAME, "disk\0x", 6);
	assert_closed("NUL");
	ck_assert_uint_eq(talk_found, 0);
}
END_TEST

START_TEST(export_name_of_4096_bytes_is_found)
{
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_EXPORT_NAME, talk_longest.name, NBD_STRING_MAX);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_TRANSMISSION);
	ck_assert_ptr_eq(talk_handshake.session.export, &talk_longest);
}
END_TEST

START_TEST(export_name_of_4097_bytes_closes)
{
	talk_flags(TALK_FIXED);
	talk_option_header(NBD_OPT_EXPORT_NAME, NBD_STRING_MAX + 1);
	talk_bytes(talk_longest.name, NBD_STRING_MAX);
	talk_bytes("n", 1);
	assert_closed("too long");
	ck_assert_uint_eq(talk_found, 0);
}
END_TEST

START_TEST(export_name_longer_than_any_option_closes)
{
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_EXPORT_NAME, zeroes, NBD_OPTION_MAX + 1);
	assert_closed("too long");
}
END_TEST

START_TEST(export_name_after_extended_headers_closes)
{
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_EXTENDED_HEADERS, NULL, 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_MORE);
	talk_expect(NBD_OPT_EXTENDED_HEADERS, NBD_REP_ACK, NULL);
	talk_option(NBD_OPT_EXPORT_NAME, "disk", 4);
	assert_closed("extended headers");
	ck_assert_uint_eq(talk_joined, 0);
}
END_TEST

START_TEST(export_name_after_structured_replies_offers_df)
{
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	talk_option(NBD_OPT_EXPORT_NAME, "disk", 4);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_TRANSMISSION);
	ck_assert_int_eq(talk_handshake.session.form, NBD_FORM_STRUCTURED);
	ck_assert_uint_eq(talk_handshake.session.flags, 0x0ded);
}
END_TEST

START_TEST(export_that_cannot_be_joined_closes_export_name)
{
	talk_join_error = NBD_REP_ERR_POLICY;
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_EXPORT_NAME, "disk", 4);
	assert_closed("locked by somebody");
}
END_TEST

START_TEST(abort_is_acknowledged)
{
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_ABORT, NULL, 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_CLOSE);
	ck_assert_ptr_null(talk_handshake.reason);
	talk_expect(NBD_OPT_ABORT, NBD_REP_ACK, NULL);
	talk_expect_silence();
}
END_TEST

START_TEST(data_of_abort_is_ignored)
{
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_ABORT, zeroes, NBD_OPTION_MAX + 5);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_CLOSE);
	ck_assert_ptr_null(talk_handshake.reason);
	talk_expect(NBD_OPT_ABORT, NBD_REP_ACK, NULL);
	talk_expect_silence();
}
END_TEST

START_TEST(nothing_is_taken_after_the_end)
{
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_ABORT, NULL, 0);
	talk_option(NBD_OPT_LIST, NULL, 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_CLOSE);
	ck_assert_uint_eq(talk_left(), 16);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_CLOSE);
	ck_assert_uint_eq(talk_left(), 16);
	talk_expect(NBD_OPT_ABORT, NBD_REP_ACK, NULL);
	talk_expect_silence();
}
END_TEST

static void
expect_entry(const struct nbd_export *export)
{
	size_t name = strlen(export->name),
	       description = export->description ? strlen(export->description) : 0;
	struct talk_reply reply;

	talk_expect(NBD_OPT_LIST, NBD_REP_SERVER, &reply);
	ck_assert_uint_eq(reply.length, 4 + name + description);
	ck_assert_uint_eq(wire_load32(reply.data), name);
	ck_assert_mem_eq(reply.data + 4, export->name, name);
	if (description)
		ck_assert_mem_eq(reply.data + 4 + name, export->description, description);
}

START_TEST(list_tells_all_exports_each_time)
{
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_LIST, NULL, 0);
	talk_option(NBD_OPT_LIST, NULL, 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_MORE);
	for (int i = 0; i < 2; i++) {
		expect_entry(&talk_disk);
		expect_entry(&talk_cd);
		expect_entry(&talk_longest);
		talk_expect(NBD_OPT_LIST, NBD_REP_ACK, NULL);
	}
	assert_in_step();
	ck_assert_uint_eq(talk_joined, 0);
}
END_TEST

START_TEST(list_may_be_off)
{
	talk_source.list = NULL;
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_LIST, NULL, 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_MORE);
	talk_expect_error(NBD_OPT_LIST, NBD_REP_ERR_POLICY, "not listed");
	assert_in_step();
}
END_TEST

START_TEST(options_without_data_refuse_data)
{
	static const uint32_t options[] = {NBD_OPT_LIST, NBD_OPT_STARTTLS, NBD_OPT_STRUCTURED_REPLY,
					   NBD_OPT_EXTENDED_HEADERS};

	talk_flags(TALK_FIXED);
	talk_option(options[_i], "x", 1);
	talk_option(options[_i], zeroes, 5000);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_MORE);
	talk_expect_error(options[_i], NBD_REP_ERR_INVALID, "no data");
	talk_expect_error(options[_i], NBD_REP_ERR_INVALID, "no data");
	ck_assert_int_eq(talk_handshake.session.form, NBD_FORM_SIMPLE);
	assert_in_step();
}
END_TEST

START_TEST(unknown_options_are_skipped_and_refused)
{
	static const uint32_t options[] = {0,          NBD_OPT_PEEK_EXPORT, 12,
					   0x7fffffff, 0x80000000,          0xffffffff};

	talk_flags(TALK_FIXED);
	talk_option(options[_i], NULL, 0);
	talk_option(options[_i], "IHAVEOPT", 8);
	talk_option(options[_i], zeroes, NBD_OPTION_MAX + 1);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_MORE);
	for (int i = 0; i < 3; i++)
		talk_expect_error(options[_i], NBD_REP_ERR_UNSUP, "unknown option");
	assert_in_step();
}
END_TEST

START_TEST(options_that_are_too_long_are_skipped_and_refused)
{
	static const uint32_t options[] = {NBD_OPT_INFO, NBD_OPT_GO, NBD_OPT_LIST_META_CONTEXT,
					   NBD_OPT_SET_META_CONTEXT};

	talk_flags(TALK_FIXED);
	talk_option(options[_i], zeroes, NBD_OPTION_MAX + 1);
	talk_option(options[_i], zeroes, talk_config.skip);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_MORE);
	talk_expect_error(options[_i], NBD_REP_ERR_TOO_BIG, "too long");
	talk_expect_error(options[_i], NBD_REP_ERR_TOO_BIG, "too long");
	assert_in_step();
}
END_TEST

START_TEST(option_that_is_far_too_long_closes_at_its_header)
{
	talk_flags(TALK_FIXED);
	talk_option_header(NBD_OPT_GO, talk_config.skip + 1);
	assert_closed("far too long");
}
END_TEST

START_TEST(too_many_options_close)
{
	talk_flags(TALK_FIXED);
	for (unsigned int i = 0; i < talk_config.options; i++)
		talk_option(NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_MORE);
	for (unsigned int i = 0; i < talk_config.options; i++)
		talk_expect(NBD_OPT_STRUCTURED_REPLY, NBD_REP_ACK, NULL);
	talk_option(NBD_OPT_ABORT, NULL, 0);
	assert_closed("too many");
}
END_TEST

/* ---- A full output */

static uint8_t full_bytes[NBD_HANDSHAKE_ROOM + 10];

START_TEST(full_output_takes_no_further_option)
{
	struct nbd_output output = {full_bytes, sizeof(full_bytes), 11};
	uint8_t input[4 + 16 + 16] = {0};
	size_t consumed;

	wire_store32(input, TALK_FIXED);
	for (uint8_t *option = input + 4; option < input + sizeof(input); option += 16)
		wire_store32(wire_store64(option, NBD_OPTION_MAGIC), NBD_OPT_STRUCTURED_REPLY);
	nbd_handshake_init(&talk_handshake, &talk_config);
	ck_assert_int_eq(
		nbd_handshake_feed(&talk_handshake, input, sizeof(input), &consumed, &output),
		NBD_HANDSHAKE_FULL);
	ck_assert_uint_eq(consumed, 20);
	ck_assert_uint_eq(output.used, 11);
	ck_assert_int_eq(talk_handshake.session.form, NBD_FORM_SIMPLE);
	ck_assert_int_eq(nbd_handshake_feed(&talk_handshake, NULL, 0, &consumed, &output),
			 NBD_HANDSHAKE_FULL);

	/* Room for the replies of exactly one option: the next one must wait. */
	output.used = 10;
	ck_assert_int_eq(nbd_handshake_feed(&talk_handshake, input + 20, 16, &consumed, &output),
			 NBD_HANDSHAKE_FULL);
	ck_assert_uint_eq(consumed, 16);
	ck_assert_uint_eq(output.used, 10 + 20);
	output.used = 0;
	ck_assert_int_eq(nbd_handshake_feed(&talk_handshake, NULL, 0, &consumed, &output),
			 NBD_HANDSHAKE_MORE);
	ck_assert_uint_eq(output.used, 20);
}
END_TEST

/* Entries of the list "export 0" ... */
static const struct nbd_export *
many(void *data, size_t n)
{
	static struct nbd_export export;
	static char name[NBD_STRING_MAX + 1];

	(void)data;
	export = talk_longest;
	export.name = name;
	memset(name, 'm', NBD_STRING_MAX);
	name[n % NBD_STRING_MAX] = 'n';
	return n < 1000 ? &export : NULL;
}

START_TEST(list_of_a_thousand_goes_on_as_there_is_room)
{
	struct nbd_output output = {full_bytes, sizeof(full_bytes), 0};
	enum nbd_handshake_result result;
	unsigned int entries = 0;
	uint8_t input[20];
	size_t consumed;

	talk_source.list = many;
	wire_store32(input, TALK_FIXED);
	wire_store32(wire_store32(wire_store64(input + 4, NBD_OPTION_MAGIC), NBD_OPT_LIST), 0);
	nbd_handshake_init(&talk_handshake, &talk_config);
	result = nbd_handshake_feed(&talk_handshake, input, sizeof(input), &consumed, &output);
	ck_assert_uint_eq(consumed, sizeof(input));
	while (result == NBD_HANDSHAKE_FULL) {
		ck_assert_uint_eq(output.used, 20 + 4 + 4096 + 4096);
		ck_assert_uint_eq(wire_load32(output.bytes + 12), NBD_REP_SERVER);
		ck_assert_uint_eq(output.bytes[24 + entries % NBD_STRING_MAX], 'n');
		entries++;
		output.used = 0;
		result = nbd_handshake_feed(&talk_handshake, input + 4, entries % 16, &consumed,
					    &output);
		ck_assert(result == NBD_HANDSHAKE_MORE || consumed == 0);
	}
	ck_assert_uint_eq(entries, 1000);
	ck_assert_int_eq(result, NBD_HANDSHAKE_MORE);
	ck_assert_uint_eq(wire_load32(output.bytes + 12), NBD_REP_ACK);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "options", .begin = talk_begin, .end = talk_end},
		{.test = greeting_offers_fixed_newstyle_and_no_zeroes},
		{.test = unknown_client_flag_closes},
		{.test = highest_client_flag_closes},
		{.test = option_without_its_magic_closes},
		{.test = unfinished_option_is_waited_for},
		{.test = export_name_tells_size_flags_and_zeroes},
		{.test = no_zeroes_are_sent_when_so_agreed},
		{.test = old_client_uses_the_default_export},
		{.test = old_client_has_no_other_option},
		{.test = export_name_that_is_unknown_closes},
		{.test = export_name_that_is_refused_closes},
		{.test = export_name_with_a_nul_closes},
		{.test = export_name_of_4096_bytes_is_found},
		{.test = export_name_of_4097_bytes_closes},
		{.test = export_name_longer_than_any_option_closes},
		{.test = export_name_after_extended_headers_closes},
		{.test = export_name_after_structured_replies_offers_df},
		{.test = export_that_cannot_be_joined_closes_export_name},
		{.test = abort_is_acknowledged},
		{.test = data_of_abort_is_ignored},
		{.test = nothing_is_taken_after_the_end},
		{.test = list_tells_all_exports_each_time},
		{.test = list_may_be_off},
		{.test = options_without_data_refuse_data, .last = 4},
		{.test = unknown_options_are_skipped_and_refused, .last = 6},
		{.test = options_that_are_too_long_are_skipped_and_refused, .last = 4},
		{.test = option_that_is_far_too_long_closes_at_its_header},
		{.test = too_many_options_close},
		{.name = "full", .begin = talk_begin},
		{.test = full_output_takes_no_further_option},
		{.test = list_of_a_thousand_goes_on_as_there_is_room},
		{0},
	};

	return suite_run("nbd_handshake", cases);
}
