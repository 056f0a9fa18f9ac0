/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vulnerabilities of other implementations: a test, with its name, for each published one that a
 * server's parser could have.  Those of sockets, timing and TLS libraries are tested elsewhere.
 */
#include "nbd/handshake.h"
#include "nbd/reply.h"
#include "nbd/request.h"

#include "nbd/wire.h"
#include "tests/lib/suite.h"
#include "tests/unit/nbd/nbd_talk.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t zeroes[1 << 17];

static struct nbd_session
some_session(enum nbd_form form)
{
	return (struct nbd_session){
		.size = UINT64_C(1) << 40,
		.min_block = 1,
		.max_payload = 1u << 20,
		.flags = NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_DF,
		.form = form,
		.allocation = true,
	};
}

/* nbd-server received a request's data into a buffer that was shorter than the request's length. */
START_TEST(cve_2005_3534_and_2011_0530_no_length_exceeds_the_buffer)
{
	for (int form = NBD_FORM_SIMPLE; form <= NBD_FORM_EXTENDED; form++) {
		struct nbd_session session = some_session(form);
		unsigned int flags = form == NBD_FORM_EXTENDED ? NBD_CMD_FLAG_PAYLOAD_LEN : 0;

		for (unsigned int bit = 0; bit < (form == NBD_FORM_EXTENDED ? 64 : 32); bit++) {
			struct nbd_request request = {
				.length = (UINT64_C(1) << bit) + 1,
				.type = NBD_CMD_WRITE,
				.flags = (uint16_t)flags,
			};
			struct nbd_check check;
			enum nbd_verdict verdict = nbd_request_check(&session, &request, &check);

			if (request.length <= session.max_payload)
				ck_assert_int_eq(verdict, NBD_VERDICT_SERVE);
			else if (request.length <= NBD_PAYLOAD_DEFAULT)
				ck_assert_int_eq(verdict, NBD_VERDICT_REFUSE);
			else
				ck_assert_int_eq(verdict, NBD_VERDICT_DROP);
		}
	}
}
END_TEST

/* A client that left in the middle of the handshake took nbd-server, and QEMU, with it. */
START_TEST(cve_2013_7441_and_2017_9524_handshake_may_end_anywhere)
{
	static uint8_t bytes[3 * NBD_HANDSHAKE_ROOM];
	static uint8_t good[200];
	uint8_t *end = good;

	end = wire_store32(end, TALK_FIXED);
	end = wire_store32(
		wire_store32(wire_store64(end, NBD_OPTION_MAGIC), NBD_OPT_STRUCTURED_REPLY), 0);
	end = wire_store32(wire_store32(wire_store64(end, NBD_OPTION_MAGIC), NBD_OPT_LIST), 0);
	end = wire_store32(
		wire_store32(wire_store64(end, NBD_OPTION_MAGIC), NBD_OPT_SET_META_CONTEXT), 31);
	end = mempcpy(end, "\0\0\0\4disk\0\0\0\1\0\0\0\17base:allocation", 31);
	end = wire_store32(wire_store32(wire_store64(end, NBD_OPTION_MAGIC), NBD_OPT_GO), 10);
	end = mempcpy(end, "\0\0\0\4disk\0\0", 10);
	for (size_t length = 0; length <= (size_t)(end - good); length++) {
		struct nbd_output output = {bytes, sizeof(bytes), 0};
		enum nbd_handshake_result result;
		size_t at = 0, consumed;

		nbd_handshake_init(&talk_handshake, &talk_config);
		do {
			output.used = 0;
			result = nbd_handshake_feed(&talk_handshake, good + at, length - at,
						    &consumed, &output);
			at += consumed;
		} while (result == NBD_HANDSHAKE_FULL);
		ck_assert_uint_eq(at, length);
		ck_assert_int_eq(result, good + length < end ? NBD_HANDSHAKE_MORE
							     : NBD_HANDSHAKE_TRANSMISSION);
	}
	ck_assert_uint_eq(talk_joined, 1);
	ck_assert(talk_handshake.session.allocation);
}
END_TEST

/* QEMU crashed on data that it didn't expect while negotiating. */
START_TEST(cve_2017_7539_unexpected_data_closes)
{
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_LIST, NULL, 0);
	/* A request, as if negotiation were over. */
	talk_number(NBD_REQUEST_MAGIC, 4);
	talk_bytes(zeroes, 24);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_CLOSE);
	ck_assert_ptr_nonnull(talk_handshake.reason);
}
END_TEST

/* QEMU read names of up to 4096 bytes into a buffer of 256. */
START_TEST(cve_2017_15118_names_have_up_to_4096_bytes)
{
	static const uint32_t lengths[] = {255, 256, 257, 1023, 1024, 1025, 4095, 4096};
	uint32_t length = lengths[_i];

	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	for (uint32_t option = NBD_OPT_INFO; option <= NBD_OPT_GO; option++) {
		talk_option_header(option, 6 + length);
		talk_number(length, 4);
		talk_bytes(talk_longest.name, length);
		talk_number(0, 2);
		if (length == NBD_STRING_MAX)
			break;
	}
	talk_option_header(NBD_OPT_SET_META_CONTEXT, 8 + length);
	talk_number(length, 4);
	talk_bytes(talk_longest.name, length);
	talk_number(0, 4);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_MORE);
	talk_expect(NBD_OPT_STRUCTURED_REPLY, NBD_REP_ACK, NULL);
	if (length == NBD_STRING_MAX) {
		talk_expect(NBD_OPT_INFO, NBD_REP_INFO, NULL);
		talk_expect(NBD_OPT_INFO, NBD_REP_ACK, NULL);
		talk_expect(NBD_OPT_SET_META_CONTEXT, NBD_REP_ACK, NULL);
	} else {
		talk_expect(NBD_OPT_INFO, NBD_REP_ERR_UNKNOWN, NULL);
		talk_expect(NBD_OPT_GO, NBD_REP_ERR_UNKNOWN, NULL);
		talk_expect(NBD_OPT_SET_META_CONTEXT, NBD_REP_ERR_UNKNOWN, NULL);
	}
	talk_expect_silence();
}
END_TEST

/* Large options kept QEMU busy: memory is bounded by design, their length and number by the
 * configuration. */
START_TEST(cve_2017_15119_large_options_are_bounded)
{
	struct nbd_handshake_config config = talk_config;

	config.skip = NBD_HANDSHAKE_SKIP;
	config.options = NBD_HANDSHAKE_OPTIONS;
	talk_config = config;
	ck_assert_uint_lt(sizeof(struct nbd_handshake), 24 * 1024);
	talk_flags(TALK_FIXED);
	talk_option(77, zeroes, sizeof(zeroes));
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_MORE);
	talk_expect(77, NBD_REP_ERR_UNSUP, NULL);
	talk_option_header(77, UINT32_MAX);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_CLOSE);
}
END_TEST

/* libnbd went on in clear where TLS was required; so must no server. */
START_TEST(cve_2019_14842_required_tls_is_not_skipped)
{
	talk_config.tls = NBD_TLS_REQUIRED;
	talk_flags(TALK_FIXED);
	talk_go(NBD_OPT_GO, "disk", 0);
	talk_option(NBD_OPT_STARTTLS, "x", 1);
	talk_go(NBD_OPT_GO, "disk", 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_MORE);
	talk_expect(NBD_OPT_GO, NBD_REP_ERR_TLS_REQD, NULL);
	talk_expect(NBD_OPT_STARTTLS, NBD_REP_ERR_INVALID, NULL);
	talk_expect(NBD_OPT_GO, NBD_REP_ERR_TLS_REQD, NULL);
	ck_assert_uint_eq(talk_found, 0);
	ck_assert_uint_eq(talk_joined, 0);
}
END_TEST

/* nbdkit opened the export for every client that connected, before it had chosen one. */
START_TEST(cve_2019_14850_nothing_is_joined_before_the_end)
{
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_LIST, NULL, 0);
	talk_option(NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	talk_go(NBD_OPT_INFO, "disk", 4, 0, 1, 2, 3);
	talk_context(NBD_OPT_LIST_META_CONTEXT, "disk", 0);
	talk_context(NBD_OPT_SET_META_CONTEXT, "disk", 1, "base:allocation");
	talk_go(NBD_OPT_GO, "unknown", 0);
	talk_option(NBD_OPT_GO, zeroes, 3);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_MORE);
	ck_assert_uint_eq(talk_joined, 0);
	talk_option(NBD_OPT_ABORT, NULL, 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_CLOSE);
	ck_assert_uint_eq(talk_joined, 0);
}
END_TEST

/* After that fix, an assertion in nbdkit failed when INFO of one export came before GO of another.
 */
START_TEST(cve_2019_14851_info_and_go_come_in_any_order)
{
	talk_flags(TALK_FIXED);
	talk_go(NBD_OPT_INFO, "disk", 1, NBD_INFO_NAME);
	talk_go(NBD_OPT_INFO, "disk", 0);
	talk_go(NBD_OPT_GO, "unknown", 0);
	talk_go(NBD_OPT_INFO, "cd", 1, NBD_INFO_BLOCK_SIZE);
	talk_option(NBD_OPT_EXTENDED_HEADERS, NULL, 0);
	talk_go(NBD_OPT_INFO, "unknown", 0);
	talk_go(NBD_OPT_GO, "disk", 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_TRANSMISSION);
	ck_assert_ptr_eq(talk_handshake.session.export, &talk_disk);
	ck_assert_uint_eq(talk_joined, 1);
}
END_TEST

/* QEMU asserted that its own error message, with the client's name in it, was short. */
START_TEST(cve_2020_10761_messages_are_short_whatever_the_name)
{
	struct talk_reply reply;
	char name[NBD_STRING_MAX + 1];

	memset(name, 'z', NBD_STRING_MAX);
	name[NBD_STRING_MAX] = '\0';
	talk_flags(TALK_FIXED);
	talk_go(NBD_OPT_GO, name, 0);
	talk_context(NBD_OPT_LIST_META_CONTEXT, name, 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_MORE);
	talk_expect(NBD_OPT_GO, NBD_REP_ERR_UNKNOWN, &reply);
	ck_assert_uint_le(reply.length, 200);
	talk_expect(NBD_OPT_LIST_META_CONTEXT, NBD_REP_ERR_UNKNOWN, &reply);
	ck_assert_uint_le(reply.length, 200);
}
END_TEST

/* After STARTTLS, nbdkit kept options that were negotiated in clear, perhaps by an attacker. */
START_TEST(cve_2021_3716_starttls_forgets_what_was_agreed_on)
{
	talk_config.tls = NBD_TLS_ALLOWED;
	talk_flags(TALK_FIXED);
	talk_option(_i ? NBD_OPT_STRUCTURED_REPLY : NBD_OPT_EXTENDED_HEADERS, NULL, 0);
	talk_context(NBD_OPT_SET_META_CONTEXT, "disk", 1, "base:allocation");
	talk_option(NBD_OPT_STARTTLS, NULL, 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_STARTTLS);
	ck_assert(talk_handshake.context);
	talk_go(NBD_OPT_GO, "disk", 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_TRANSMISSION);
	ck_assert_int_eq(talk_handshake.session.form, NBD_FORM_SIMPLE);
	ck_assert(!talk_handshake.session.allocation);
	ck_assert(!(talk_handshake.session.flags & NBD_FLAG_SEND_DF));
}
END_TEST

/* The other direction, as in other protocols' STARTTLS: bytes that were sent in clear after the
 * option must not be taken for bytes that came through TLS. */
START_TEST(cve_2021_3716_options_behind_starttls_are_not_taken)
{
	talk_config.tls = NBD_TLS_ALLOWED;
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_STARTTLS, NULL, 0);
	talk_go(NBD_OPT_GO, "disk", 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_CLOSE);
	ck_assert_msg(strstr(talk_handshake.reason, "before TLS"), "%s", talk_handshake.reason);
	ck_assert_uint_eq(talk_joined, 0);
}
END_TEST

/* nbd-server allocated name length + 1 bytes, which was none, and read the name into them. */
START_TEST(cve_2022_26495_name_length_does_not_wrap)
{
	static const uint32_t options[] = {NBD_OPT_INFO, NBD_OPT_GO, NBD_OPT_LIST_META_CONTEXT,
					   NBD_OPT_SET_META_CONTEXT};

	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	for (uint32_t length = UINT32_MAX - 8; length; length++) {
		talk_option_header(options[_i], 32);
		talk_number(length, 4);
		talk_bytes(zeroes, 28);
	}
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_MORE);
	talk_expect(NBD_OPT_STRUCTURED_REPLY, NBD_REP_ACK, NULL);
	for (uint32_t length = UINT32_MAX - 8; length; length++)
		talk_expect(options[_i], NBD_REP_ERR_INVALID, NULL);
	ck_assert_uint_eq(talk_found, 0);
}
END_TEST

/* nbd-server read the data of an option into 1024 bytes of its stack. */
START_TEST(cve_2022_26496_option_data_has_any_length)
{
	static const uint32_t lengths[] = {1023, 1024, 1025, 4096, 16383, 16384, 16385, 65536};

	talk_flags(TALK_FIXED);
	for (uint32_t option = NBD_OPT_LIST; option < 14; option++)
		talk_option(option, zeroes, lengths[_i]);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_MORE);
	for (uint32_t option = NBD_OPT_LIST; option < 14; option++) {
		bool data = option == NBD_OPT_INFO || option == NBD_OPT_GO ||
			    option == NBD_OPT_LIST_META_CONTEXT;
		bool known = option != NBD_OPT_PEEK_EXPORT && option <= NBD_OPT_EXTENDED_HEADERS;

		talk_expect(option,
			    !known ? NBD_REP_ERR_UNSUP
			    : lengths[_i] > NBD_OPTION_MAX &&
					    (data || option == NBD_OPT_SET_META_CONTEXT)
				    ? NBD_REP_ERR_TOO_BIG
				    : NBD_REP_ERR_INVALID,
			    NULL);
	}
	talk_expect_silence();
}
END_TEST

/* An extent of 4 GiB or more failed an assertion in nbdkit; another assertion failed when a request
 * near 4 GiB was rounded up to blocks. */
START_TEST(cve_2025_47711_and_47712_extents_fit_32_bits)
{
	struct nbd_session session = some_session(NBD_FORM_STRUCTURED);
	struct nbd_request request = {
		.type = NBD_CMD_BLOCK_STATUS, .offset = 511, .length = UINT32_MAX};
	uint8_t bytes[NBD_REPLY_STATUS_MAX(4)];
	struct nbd_status status;

	session.min_block = 1u << 16;
	for (uint64_t length = UINT64_C(1) << 32; length; length <<= 1) {
		nbd_status_init(&status, &session, &request, bytes, sizeof(bytes));
		ck_assert(!nbd_status_add(&status, length, NBD_STATE_HOLE | NBD_STATE_ZERO));
		ck_assert_uint_eq(nbd_status_finish(&status), 20 + 4 + 8);
		ck_assert_uint_eq(wire_load32(bytes + 24), UINT32_MAX);
	}
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "cve", .begin = talk_begin, .end = talk_end},
		{.test = cve_2005_3534_and_2011_0530_no_length_exceeds_the_buffer},
		{.test = cve_2013_7441_and_2017_9524_handshake_may_end_anywhere},
		{.test = cve_2017_7539_unexpected_data_closes},
		{.test = cve_2017_15118_names_have_up_to_4096_bytes, .last = 8},
		{.test = cve_2017_15119_large_options_are_bounded},
		{.test = cve_2019_14842_required_tls_is_not_skipped},
		{.test = cve_2019_14850_nothing_is_joined_before_the_end},
		{.test = cve_2019_14851_info_and_go_come_in_any_order},
		{.test = cve_2020_10761_messages_are_short_whatever_the_name},
		{.test = cve_2021_3716_starttls_forgets_what_was_agreed_on, .last = 2},
		{.test = cve_2021_3716_options_behind_starttls_are_not_taken},
		{.test = cve_2022_26495_name_length_does_not_wrap, .last = 4},
		{.test = cve_2022_26496_option_data_has_any_length, .last = 8},
		{.test = cve_2025_47711_and_47712_extents_fit_32_bits},
		{0},
	};

	return suite_run("nbd_cve", cases);
}
