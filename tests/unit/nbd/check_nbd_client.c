/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client's side of the handshake: with our own server, with servers of other kinds, and with
 * such as send nonsense.  Each conversation is held twice, the second time byte by byte.
 */
#include "nbd/client_handshake.h"

#include "nbd/wire.h"
#include "tests/lib/suite.h"
#include "tests/unit/nbd/nbd_talk.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define SIZE  (UINT64_C(5) << 30)
#define FLAGS (NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_FLUSH)

static struct nbd_client_handshake client;
static bool with_tls;
static uint8_t said[4 * NBD_CLIENT_ROOM];
static size_t said_length;

/* What a server says. */
static uint8_t server[65536];
static size_t server_length;

static void
number(uint64_t value, unsigned int bytes)
{
	for (unsigned int i = bytes; i-- > 0;)
		server[server_length++] = (uint8_t)(value >> 8 * i);
}

static void
zeroes(size_t length)
{
	memset(server + server_length, 0, length);
	server_length += length;
}

static void
greet(uint16_t flags)
{
	server_length = 0;
	number(NBD_MAGIC, 8);
	number(NBD_OPTION_MAGIC, 8);
	number(flags, 2);
}

static void
reply_to(uint32_t option, uint32_t type, const char *data, uint32_t length)
{
	number(NBD_REP_MAGIC, 8);
	number(option, 4);
	number(type, 4);
	number(length, 4);
	if (data)
		memcpy(server + server_length, data, length);
	server_length += data ? length : 0;
}

static void
reply(uint32_t type, const char *data, uint32_t length)
{
	reply_to(NBD_OPT_GO, type, data, length);
}

static void
describe(void)
{
	reply(NBD_REP_INFO, NULL, NBD_INFO_EXPORT_SIZE);
	number(NBD_INFO_EXPORT, 2);
	number(SIZE, 8);
	number(FLAGS, 2);
}

static void
want_block(uint32_t smallest)
{
	reply(NBD_REP_INFO, NULL, NBD_INFO_BLOCK_SIZE_SIZE);
	number(NBD_INFO_BLOCK_SIZE, 2);
	number(smallest, 4);
	number(65536, 4);
	number(1 << 25, 4);
}

static enum nbd_client_result
feed(const uint8_t *bytes, size_t length)
{
	uint8_t room[NBD_CLIENT_ROOM];
	struct nbd_output output = {.bytes = room, .size = sizeof(room)};
	enum nbd_client_result result = nbd_client_handshake_feed(&client, bytes, length, &output);

	ck_assert_uint_le(said_length + output.used, sizeof(said));
	memcpy(said + said_length, room, output.used);
	said_length += output.used;
	return result;
}

static enum nbd_client_result
hold(const char *export, size_t piece)
{
	enum nbd_client_result result = NBD_CLIENT_MORE;

	said_length = 0;
	nbd_client_handshake_init(&client, export, with_tls);
	for (size_t at = 0; at < server_length; at += piece)
		result = feed(server + at, server_length - at < piece ? server_length - at : piece);
	return result;
}

/* All at once, and byte by byte. */
static enum nbd_client_result
talk(const char *export)
{
	enum nbd_client_result result = hold(export, sizeof(server));

	ck_assert_int_eq(hold(export, 1), result);
	return result;
}

static void
assert_failed(const char *export, const char *reason)
{
	ck_assert_int_eq(talk(export), NBD_CLIENT_FAILED);
	ck_assert_msg(strstr(client.reason, reason), "\"%s\" instead of \"%s\"", client.reason,
		      reason);
}

static void
assert_ready(const char *export)
{
	ck_assert_int_eq(talk(export), NBD_CLIENT_READY);
	ck_assert_uint_eq(client.size, SIZE);
	ck_assert_uint_eq(client.flags, FLAGS);
}

/* ---- our own server */

START_TEST(our_server_tells_what_the_export_is)
{
	uint8_t bytes[NBD_HANDSHAKE_ROOM];
	struct nbd_output output = {bytes, sizeof(bytes), 0};
	size_t consumed;

	nbd_handshake_init(&talk_handshake, &talk_config);
	nbd_handshake_greet(&talk_handshake, &output);
	nbd_client_handshake_init(&client, "cd", false);
	said_length = 0;
	ck_assert_int_eq(feed(bytes, output.used), NBD_CLIENT_MORE);
	output.used = 0;
	ck_assert_int_eq(nbd_handshake_feed(&talk_handshake, said, said_length, &consumed, &output),
			 NBD_HANDSHAKE_TRANSMISSION);
	ck_assert_uint_eq(consumed, said_length);
	ck_assert_int_eq(feed(bytes, output.used), NBD_CLIENT_READY);
	ck_assert_uint_eq(client.size, talk_cd.size);
	ck_assert_uint_eq(client.flags, talk_handshake.session.flags);
	ck_assert(client.flags & NBD_FLAG_READ_ONLY);
	ck_assert_uint_eq(client.smallest_block, talk_cd.min_block);
}
END_TEST

START_TEST(our_server_says_that_it_has_no_such_export)
{
	uint8_t bytes[NBD_HANDSHAKE_ROOM];
	struct nbd_output output = {bytes, sizeof(bytes), 0};
	size_t consumed;

	nbd_handshake_init(&talk_handshake, &talk_config);
	nbd_handshake_greet(&talk_handshake, &output);
	nbd_client_handshake_init(&client, "dvd", false);
	said_length = 0;
	feed(bytes, output.used);
	output.used = 0;
	nbd_handshake_feed(&talk_handshake, said, said_length, &consumed, &output);
	ck_assert_int_eq(feed(bytes, output.used), NBD_CLIENT_FAILED);
	ck_assert_ptr_nonnull(strstr(client.reason, "the server has no export \"dvd\""));
}
END_TEST

/* ---- others */

START_TEST(go_is_asked_for_the_export_and_its_block_size)
{
	static const uint8_t wanted[] = "\0\0\0\3IHAVEOPT\0\0\0\7\0\0\0\12\0\0\0\2cd\0\1\0\3";

	greet(NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES);
	ck_assert_int_eq(talk("cd"), NBD_CLIENT_MORE);
	ck_assert_uint_eq(said_length, sizeof(wanted) - 1);
	ck_assert_mem_eq(said, wanted, said_length);
	describe();
	want_block(4096);
	reply(NBD_REP_INFO, "\0\2disk", 6);
	reply(NBD_REP_ACK, NULL, 0);
	assert_ready("cd");
	ck_assert_uint_eq(client.smallest_block, 4096);
}
END_TEST

START_TEST(server_without_go_is_asked_by_name)
{
	static const uint8_t wanted[] = "IHAVEOPT\0\0\0\1\0\0\0\2cd";

	greet(NBD_FLAG_FIXED_NEWSTYLE);
	reply(NBD_REP_ERR_UNSUP, "what?", 5);
	ck_assert_int_eq(talk("cd"), NBD_CLIENT_MORE);
	ck_assert_mem_eq(said + said_length - (sizeof(wanted) - 1), wanted, sizeof(wanted) - 1);
	number(SIZE, 8);
	number(FLAGS, 2);
	ck_assert_int_eq(talk("cd"), NBD_CLIENT_MORE);
	zeroes(NBD_EXPORT_ZEROES);
	assert_ready("cd");
}
END_TEST

START_TEST(newstyle_server_that_is_not_fixed_is_asked_by_name)
{
	static const uint8_t wanted[] = "\0\0\0\2IHAVEOPT\0\0\0\1\0\0\0\0";

	greet(NBD_FLAG_NO_ZEROES);
	ck_assert_int_eq(talk(""), NBD_CLIENT_MORE);
	ck_assert_uint_eq(said_length, sizeof(wanted) - 1);
	ck_assert_mem_eq(said, wanted, said_length);
	number(SIZE, 8);
	number(FLAGS, 2);
	assert_ready("");
}
END_TEST

START_TEST(oldstyle_server_has_one_export)
{
	server_length = 0;
	number(NBD_MAGIC, 8);
	number(UINT64_C(0x0000420281861253), 8);
	number(SIZE, 8);
	number(FLAGS, 4);
	ck_assert_int_eq(talk(""), NBD_CLIENT_MORE);
	zeroes(NBD_EXPORT_ZEROES);
	assert_ready("");
	ck_assert_uint_eq(said_length, 0);
	assert_failed("cd", "one export, without a name");
}
END_TEST

START_TEST(refusal_is_in_the_servers_words)
{
	greet(NBD_FLAG_FIXED_NEWSTYLE);
	reply(NBD_REP_ERR_TLS_REQD, "use \x1b[31mTLS", 12);
	assert_failed("cd", "the server demands TLS (nbds://) for the export \"cd\": use ?[31mTLS");
	greet(NBD_FLAG_FIXED_NEWSTYLE);
	reply(NBD_REP_ERR_POLICY, "\xff", 1);
	assert_failed("cd", "policy forbids the export \"cd\"");
	ck_assert(client.reason[strlen(client.reason) - 1] == '"');
}
END_TEST

/* ---- TLS */

static void
greet_with_tls(void)
{
	with_tls = true;
	greet(NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES);
}

START_TEST(nothing_but_tls_is_asked_for_in_the_clear)
{
	static const uint8_t wanted[] = "\0\0\0\3IHAVEOPT\0\0\0\5\0\0\0\0";
	static const uint8_t go[] = "IHAVEOPT\0\0\0\7\0\0\0\12\0\0\0\2cd\0\1\0\3";
	uint8_t room[NBD_CLIENT_ROOM];
	struct nbd_output output = {.bytes = room, .size = sizeof(room)};

	greet_with_tls();
	ck_assert_int_eq(talk("cd"), NBD_CLIENT_MORE);
	reply_to(NBD_OPT_STARTTLS, NBD_REP_ACK, NULL, 0);
	ck_assert_int_eq(talk("cd"), NBD_CLIENT_TLS);
	ck_assert_uint_eq(said_length, sizeof(wanted) - 1);
	ck_assert_mem_eq(said, wanted, said_length);
	nbd_client_handshake_secured(&client, &output);
	ck_assert_uint_eq(output.used, sizeof(go) - 1);
	ck_assert_mem_eq(room, go, output.used);
	server_length = 0;
	describe();
	ck_assert_int_eq(feed(server, server_length), NBD_CLIENT_MORE);
	server_length = 0;
	reply(NBD_REP_ACK, NULL, 0);
	ck_assert_int_eq(feed(server, server_length), NBD_CLIENT_READY);
	ck_assert_uint_eq(client.size, SIZE);
}
END_TEST

START_TEST(server_without_tls_gets_nothing_in_the_clear)
{
	greet_with_tls();
	reply_to(NBD_OPT_STARTTLS, NBD_REP_ERR_POLICY, "not\nhere", 8);
	assert_failed("cd", "the server refuses TLS: not?here");
	greet_with_tls();
	reply_to(NBD_OPT_STARTTLS, NBD_REP_ERR_UNSUP, NULL, 0);
	assert_failed("cd", "the server refuses TLS");
	/* It answers an option that was not sent. */
	greet_with_tls();
	reply(NBD_REP_ACK, NULL, 0);
	assert_failed("cd", "not the one to the option");
	greet_with_tls();
	greet(NBD_FLAG_NO_ZEROES);
	assert_failed("cd", "the server has no TLS");
	ck_assert_uint_eq(said_length, 0);
	server_length = 0;
	number(NBD_MAGIC, 8);
	number(UINT64_C(0x0000420281861253), 8);
	zeroes(8 + 4 + NBD_EXPORT_ZEROES);
	assert_failed("", "the server has no TLS");
	ck_assert_uint_eq(said_length, 0);
}
END_TEST

/* They would be taken for a part of the encrypted negotiation. */
START_TEST(bytes_in_the_clear_before_tls_are_refused)
{
	greet_with_tls();
	reply_to(NBD_OPT_STARTTLS, NBD_REP_ACK, NULL, 0);
	describe();
	reply(NBD_REP_ACK, NULL, 0);
	assert_failed("cd", "bytes in the clear after it had agreed to TLS");
}
END_TEST

/* ---- nonsense */

START_TEST(nonsense_is_refused)
{
	static const uint8_t http[] = "HTTP/1.1 400 Bad Request\r\n";

	server_length = sizeof(http);
	memcpy(server, http, sizeof(http));
	assert_failed("", "no NBD server");
	greet(NBD_FLAG_FIXED_NEWSTYLE);
	number(NBD_REP_MAGIC + 1, 8);
	zeroes(12);
	assert_failed("", "is not the one to the option");
	greet(NBD_FLAG_FIXED_NEWSTYLE);
	reply(NBD_REP_INFO, NULL, UINT32_MAX);
	assert_failed("", "is not the one to the option");
	greet(NBD_FLAG_FIXED_NEWSTYLE);
	reply(NBD_REP_ACK, NULL, 0);
	assert_failed("", "doesn't describe the export");
	greet(NBD_FLAG_FIXED_NEWSTYLE);
	reply(NBD_REP_INFO, "\0\0\1", 3);
	assert_failed("", "describes the export in 3 bytes");
	greet(NBD_FLAG_FIXED_NEWSTYLE);
	want_block(513);
	assert_failed("", "impossible block size, 513");
}
END_TEST

START_TEST(description_without_end_is_refused)
{
	greet(NBD_FLAG_FIXED_NEWSTYLE);
	for (int i = 0; i < 1000; i++)
		describe();
	assert_failed("", "describes the export without end");
}
END_TEST

START_TEST(size_that_no_device_can_have_is_refused)
{
	greet(0);
	number(UINT64_MAX, 8);
	number(FLAGS, 2);
	zeroes(NBD_EXPORT_ZEROES);
	assert_failed("", "impossible size, 18446744073709551615 bytes");
}
END_TEST

START_TEST(bytes_after_the_handshake_are_refused)
{
	greet(NBD_FLAG_FIXED_NEWSTYLE);
	describe();
	reply(NBD_REP_ACK, NULL, 0);
	assert_ready("");
	number(0, 1);
	assert_failed("", "more than its answers");
}
END_TEST

START_TEST(answers_before_the_questions_need_no_more_room)
{
	static char longest[NBD_STRING_MAX + 1];

	memset(longest, 'x', NBD_STRING_MAX);
	greet(NBD_FLAG_FIXED_NEWSTYLE);
	reply(NBD_REP_ERR_UNSUP, NULL, 0);
	number(SIZE, 8);
	number(FLAGS, 2);
	zeroes(NBD_EXPORT_ZEROES);
	assert_ready(longest);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "own", .begin = talk_begin},
		{.test = our_server_tells_what_the_export_is},
		{.test = our_server_says_that_it_has_no_such_export},
		{.name = "others"},
		{.test = go_is_asked_for_the_export_and_its_block_size},
		{.test = server_without_go_is_asked_by_name},
		{.test = newstyle_server_that_is_not_fixed_is_asked_by_name},
		{.test = oldstyle_server_has_one_export},
		{.test = refusal_is_in_the_servers_words},
		{.name = "tls"},
		{.test = nothing_but_tls_is_asked_for_in_the_clear},
		{.test = server_without_tls_gets_nothing_in_the_clear},
		{.test = bytes_in_the_clear_before_tls_are_refused},
		{.name = "nonsense"},
		{.test = nonsense_is_refused},
		{.test = description_without_end_is_refused},
		{.test = size_that_no_device_can_have_is_refused},
		{.test = bytes_after_the_handshake_are_refused},
		{.test = answers_before_the_questions_need_no_more_room},
		{0},
	};

	return suite_run("nbd_client", cases);
}
