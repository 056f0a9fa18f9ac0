/* SPDX-License-Identifier: BSD-3-Clause */
/* What the server and a client agree on: the form of replies, TLS, a refusal of everything. */
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

START_TEST(structured_replies_may_be_asked_for_twice)
{
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	talk_option(NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	talk_go(NBD_OPT_GO, "disk", 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_TRANSMISSION);
	talk_expect(NBD_OPT_STRUCTURED_REPLY, NBD_REP_ACK, NULL);
	talk_expect(NBD_OPT_STRUCTURED_REPLY, NBD_REP_ACK, NULL);
	ck_assert_int_eq(talk_handshake.session.form, NBD_FORM_STRUCTURED);
}
END_TEST

START_TEST(extended_headers_take_precedence)
{
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	talk_option(NBD_OPT_EXTENDED_HEADERS, NULL, 0);
	talk_option(NBD_OPT_EXTENDED_HEADERS, NULL, 0);
	talk_option(NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	talk_go(NBD_OPT_GO, "disk", 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_TRANSMISSION);
	talk_expect(NBD_OPT_STRUCTURED_REPLY, NBD_REP_ACK, NULL);
	talk_expect(NBD_OPT_EXTENDED_HEADERS, NBD_REP_ACK, NULL);
	talk_expect(NBD_OPT_EXTENDED_HEADERS, NBD_REP_ACK, NULL);
	talk_expect_error(NBD_OPT_STRUCTURED_REPLY, NBD_REP_ERR_EXT_HEADER_REQD,
			  "extended headers");
	talk_expect_export(NBD_OPT_GO, talk_disk.size, 0x0ded);
	ck_assert_int_eq(talk_handshake.session.form, NBD_FORM_EXTENDED);
}
END_TEST

START_TEST(starttls_is_refused_where_there_is_none)
{
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_STARTTLS, NULL, 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_MORE);
	talk_expect_error(NBD_OPT_STARTTLS, NBD_REP_ERR_UNSUP, "no TLS");
	assert_in_step();
}
END_TEST

START_TEST(starttls_hands_over_and_happens_once)
{
	talk_config.tls = NBD_TLS_ALLOWED;
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_STARTTLS, NULL, 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_STARTTLS);
	talk_expect(NBD_OPT_STARTTLS, NBD_REP_ACK, NULL);
	talk_expect_silence();
	talk_option(NBD_OPT_STARTTLS, NULL, 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_MORE);
	talk_expect_error(NBD_OPT_STARTTLS, NBD_REP_ERR_INVALID, "on already");
	assert_in_step();
}
END_TEST

START_TEST(starttls_with_data_is_refused)
{
	talk_config.tls = NBD_TLS_ALLOWED;
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_STARTTLS, "x", 1);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_MORE);
	talk_expect_error(NBD_OPT_STARTTLS, NBD_REP_ERR_INVALID, "no data");
	assert_in_step();
}
END_TEST

START_TEST(required_tls_comes_before_everything_but_abort)
{
	static const uint32_t options[] = {NBD_OPT_LIST,
					   NBD_OPT_INFO,
					   NBD_OPT_GO,
					   NBD_OPT_STRUCTURED_REPLY,
					   NBD_OPT_LIST_META_CONTEXT,
					   NBD_OPT_SET_META_CONTEXT,
					   NBD_OPT_EXTENDED_HEADERS,
					   99};

	talk_config.tls = NBD_TLS_REQUIRED;
	talk_flags(TALK_FIXED);
	talk_option(options[_i], NULL, 0);
	talk_option(options[_i], zeroes, 20000);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_MORE);
	talk_expect_error(options[_i], NBD_REP_ERR_TLS_REQD, "TLS is required");
	talk_expect_error(options[_i], NBD_REP_ERR_TLS_REQD, "TLS is required");
	ck_assert_uint_eq(talk_found, 0);
	talk_option(NBD_OPT_ABORT, NULL, 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_CLOSE);
	talk_expect(NBD_OPT_ABORT, NBD_REP_ACK, NULL);
}
END_TEST

START_TEST(required_tls_closes_export_name)
{
	talk_config.tls = NBD_TLS_REQUIRED;
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_EXPORT_NAME, "disk", 4);
	assert_closed("TLS is required");
	ck_assert_uint_eq(talk_found, 0);
}
END_TEST

START_TEST(required_tls_is_enough)
{
	talk_config.tls = NBD_TLS_REQUIRED;
	talk_flags(TALK_FIXED);
	talk_option(NBD_OPT_STARTTLS, NULL, 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_STARTTLS);
	talk_option(NBD_OPT_EXPORT_NAME, "disk", 4);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_TRANSMISSION);
}
END_TEST

/* Also where TLS is required: a server that says so would have to agree to STARTTLS. */
static const struct nbd_refusal refusal = {NBD_REP_ERR_POLICY, "no place", false};

static void
begin_refused(void)
{
	talk_config.tls = NBD_TLS_REQUIRED;
	talk_config.refusal = &refusal;
	talk_flags(TALK_FIXED);
}

START_TEST(refusal_answers_all_but_abort)
{
	static const uint32_t options[] = {NBD_OPT_LIST,
					   NBD_OPT_STARTTLS,
					   NBD_OPT_INFO,
					   NBD_OPT_GO,
					   NBD_OPT_STRUCTURED_REPLY,
					   NBD_OPT_LIST_META_CONTEXT,
					   NBD_OPT_SET_META_CONTEXT,
					   NBD_OPT_EXTENDED_HEADERS,
					   99};

	begin_refused();
	talk_option(options[_i], NULL, 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_MORE);
	talk_expect_error(options[_i], NBD_REP_ERR_POLICY, "no place");
	talk_option(NBD_OPT_ABORT, NULL, 0);
	ck_assert_int_eq(talk_run(), NBD_HANDSHAKE_CLOSE);
	talk_expect(NBD_OPT_ABORT, NBD_REP_ACK, NULL);
	ck_assert_uint_eq(talk_found, 0);
}
END_TEST

START_TEST(refusal_closes_export_name)
{
	begin_refused();
	talk_option(NBD_OPT_EXPORT_NAME, "disk", 4);
	assert_closed("no place");
	ck_assert_uint_eq(talk_found, 0);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "modes", .begin = talk_begin, .end = talk_end},
		{.test = structured_replies_may_be_asked_for_twice},
		{.test = extended_headers_take_precedence},
		{.test = starttls_is_refused_where_there_is_none},
		{.test = starttls_hands_over_and_happens_once},
		{.test = starttls_with_data_is_refused},
		{.test = required_tls_comes_before_everything_but_abort, .last = 8},
		{.test = required_tls_closes_export_name},
		{.test = required_tls_is_enough},
		{.test = refusal_answers_all_but_abort, .last = 9},
		{.test = refusal_closes_export_name},
		{0},
	};

	return suite_run("nbd_modes", cases);
}
