/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Negotiations over TLS, with a server that is a thread of this program, and with a kernel that is
 * played here: it takes whatever keys it gets.
 */
#include "tool/link/negotiation.h"
#include "tool/source/source_tls.h"

#include "nbd/protocol.h"
#include "nbd/tls/ktls.h"
#include "nbd/wire.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the kernel */

static int missing, refused; /* what it answers */
static unsigned int handed_over;

int
ktls_missing(char reason[KTLS_REASON_MAX])
{
	snprintf(reason, KTLS_REASON_MAX, "the kernel has no tls module");
	return missing;
}

int
ktls_begin(struct tls_session *session, int fd, char reason[KTLS_REASON_MAX])
{
	uint8_t byte;

	ck_assert(tls_session_at_record(session) && !tls_session_has_data(session));
	/* No byte waits in the socket, and it is not at its end. */
	ck_assert_int_eq(recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT), -1);
	snprintf(reason, KTLS_REASON_MAX, "the kernel refuses this cipher");
	handed_over += refused == 0;
	return refused;
}

uint64_t
ktls_record_limit(const struct tls_session *session)
{
	(void)session;
	return 77;
}

/* ---- the server */

static struct server {
	bool splits;      /* sends byte by byte */
	bool adds_clear;  /* a byte in the clear after it has agreed to TLS */
	bool adds_inside; /* a byte after its last answer, in the same record */
	bool adds_record; /* the same, in a record of its own, which comes with the answer */
	bool refuses;     /* TLS */
	bool leaves;      /* after the TLS handshake */
} server;

static char *keys, *other_keys; /* paths */
static int server_fd;
static struct tls_session *server_session;
static struct tls_credentials *server_credentials;
static uint8_t received[4096], sent[4 * TLS_ROOM];
static struct tls_input server_input;
static struct nbd_output server_output;

static bool
put(const void *bytes, size_t length)
{
	const size_t piece = server.splits ? 1 : length;

	for (size_t at = 0; at < length; at += piece) {
		if (send(server_fd, (const uint8_t *)bytes + at, piece, MSG_NOSIGNAL) < 0)
			return false;
	}
	return true;
}

static bool
get(void *bytes, size_t length)
{
	return recv(server_fd, bytes, length, MSG_WAITALL) == (ssize_t)length;
}

static bool
send_output(void)
{
	bool good = put(sent, server_output.used);

	server_output.used = 0;
	return good;
}

static bool
receive_input(void)
{
	ssize_t n = send_output() ? recv(server_fd, received, sizeof(received), 0) : 0;

	server_input = (struct tls_input){.bytes = received, .length = (size_t)MAX(n, 0)};
	return n > 0;
}

static bool
agree_to_tls(void)
{
	enum {
		ASKED = NBD_CLIENT_FLAGS_SIZE + NBD_OPTION_HEADER_SIZE,
	};
	uint8_t bytes[ASKED + 1], *at = bytes;

	at = wire_store64(at, NBD_MAGIC);
	at = wire_store64(at, NBD_OPTION_MAGIC);
	wire_store16(at, NBD_FLAG_FIXED_NEWSTYLE);
	if (!put(bytes, NBD_GREETING_SIZE) || !get(bytes, ASKED))
		return false;
	at = wire_store64(bytes, NBD_REP_MAGIC);
	at = wire_store32(at, NBD_OPT_STARTTLS);
	at = wire_store32(at, server.refuses ? NBD_REP_ERR_POLICY : NBD_REP_ACK);
	at = wire_store32(at, 0);
	if (server.adds_clear)
		*at++ = 0;
	return put(bytes, (size_t)(at - bytes)) && !server.refuses;
}

static bool
shake_hands(void)
{
	for (;;) {
		switch (tls_session_handshake(server_session, &server_input, &server_output)) {
		case TLS_DONE: return send_output();
		case TLS_MORE:
			if (!receive_input())
				return false;
			break;
		case TLS_FULL:
			if (!send_output())
				return false;
			break;
		case TLS_CLOSED:
		case TLS_FAILED: send_output(); return false;
		}
	}
}

static bool
say(const uint8_t *bytes, size_t length)
{
	size_t taken;

	return tls_session_write(server_session, bytes, length, &taken, &server_output) ==
		       TLS_DONE &&
	       taken == length;
}

static bool
answer_go(void)
{
	uint8_t bytes[200], *at = bytes;
	size_t length;
	enum tls_result result;

	while ((result = tls_session_read(server_session, &server_input, bytes, sizeof(bytes),
					  &length)) == TLS_MORE) {
		if (!receive_input())
			return false;
	}
	if (result != TLS_DONE || wire_load32(bytes + 8) != NBD_OPT_GO)
		return false;
	at = wire_store64(at, NBD_REP_MAGIC);
	at = wire_store32(at, NBD_OPT_GO);
	at = wire_store32(at, NBD_REP_INFO);
	at = wire_store32(at, NBD_INFO_EXPORT_SIZE);
	at = wire_store16(at, NBD_INFO_EXPORT);
	at = wire_store64(at, 1 << 20);
	at = wire_store16(at, NBD_FLAG_HAS_FLAGS);
	if (!say(bytes, (size_t)(at - bytes)))
		return false;
	at = wire_store64(bytes, NBD_REP_MAGIC);
	at = wire_store32(at, NBD_OPT_GO);
	at = wire_store32(at, NBD_REP_ACK);
	at = wire_store32(at, 0);
	if (server.adds_inside)
		*at++ = 0;
	return say(bytes, (size_t)(at - bytes)) &&
	       (!server.adds_record || say((const uint8_t *)"x", 1)) && send_output();
}

static void *
serve(void *data)
{
	uint8_t byte;

	if (agree_to_tls() && shake_hands() && !server.leaves && answer_go())
		recv(server_fd, &byte, 1, 0);
	close(server_fd);
	return data;
}

/* ---- the client */

static struct negotiation negotiation;
static struct negotiation_aim aim; /* for as long as the negotiation */
static bool proxy;                 /* is to have the keys, and not the kernel */

static void
write_keys(char **path, const char *name, const char *text)
{
	*path = g_strdup_printf("%s/nbdloop-%d-%s.psk", g_get_tmp_dir(), (int)getpid(), name);
	ck_assert(g_file_set_contents(*path, text, -1, NULL));
}

static void
begin(void)
{
	struct tls_files files = {.side = TLS_SERVER};
	char *error = NULL;

	negotiation = (struct negotiation){.fd = -1};
	server = (struct server){.splits = false};
	server_input = (struct tls_input){.length = 0};
	missing = refused = 0;
	handed_over = 0;
	proxy = false;
	write_keys(
		&keys, "keys",
		"alice:00112233445566778899aabbccddeeff\nbob:0123456789abcdef0123456789abcdef\n");
	write_keys(&other_keys, "other", "alice:ffeeddccbbaa99887766554433221100\n");
	files.psk = keys;
	ck_assert_int_eq(tls_credentials_load(&files, &server_credentials, &error), 0);
	ck_assert_int_eq(tls_session_new(&server_session, server_credentials, NULL), 0);
	server_output = (struct nbd_output){.bytes = sent, .size = sizeof(sent)};
}

static void
end(void)
{
	negotiation_end(&negotiation);
	tls_session_free(server_session);
	tls_credentials_unref(server_credentials);
	unlink(keys);
	unlink(other_keys);
	g_clear_pointer(&keys, g_free);
	g_clear_pointer(&other_keys, g_free);
}

static void
negotiate(const char *psk)
{
	struct source_tls tls = {
		.wanted = true, .proxy = proxy, .verify = true, .psk = (char *)psk};
	GError *error = NULL;
	pthread_t thread;
	int pair[2];

	aim = (struct negotiation_aim){.export = "disk", .proxy = proxy};
	aim.credentials = source_tls_credentials(&tls, &error);
	ck_assert_msg(aim.credentials, "%s", error ? error->message : "");
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	server_fd = pair[1];
	ck_assert_int_eq(pthread_create(&thread, NULL, serve, NULL), 0);
	negotiation_begin(&negotiation, pair[0], &aim);
	for (;;) {
		negotiation_advance(&negotiation);
		if (negotiation.state != NEGOTIATION_GOES_ON)
			break;
		negotiations_wait(&negotiation, 1, g_get_monotonic_time() + 10 * G_USEC_PER_SEC);
	}
	if (negotiation.fd >= 0)
		shutdown(negotiation.fd, SHUT_WR);
	pthread_join(thread, NULL);
	tls_credentials_unref(aim.credentials);
}

static void
assert_ready(void)
{
	negotiate(keys);
	ck_assert_msg(negotiation.state == NEGOTIATION_READY, "%s", negotiation.reason);
	ck_assert_uint_eq(handed_over, 1);
	ck_assert_uint_eq(negotiation.handshake.size, 1 << 20);
	ck_assert_str_eq(negotiation.cipher, "1.3 AES-128-GCM");
	ck_assert_uint_eq(negotiation.record_limit, 77);
	ck_assert_int_ge(negotiation.fd, 0);
}

static void
assert_failed(const char *psk, const char *reason)
{
	negotiate(psk);
	ck_assert_int_eq(negotiation.state, NEGOTIATION_FAILED);
	ck_assert_msg(strstr(negotiation.reason, reason), "\"%s\" instead of \"%s\"",
		      negotiation.reason, reason);
	ck_assert_int_eq(negotiation.fd, -1);
	ck_assert_uint_eq(handed_over, 0);
}

START_TEST(kernel_gets_the_keys_after_the_last_answer)
{
	assert_ready();
}
END_TEST

START_TEST(records_may_come_in_pieces)
{
	server.splits = true;
	assert_ready();
}
END_TEST

/* The session goes on in its hands. */
START_TEST(proxy_gets_the_session)
{
	struct tls_session *session;
	uint8_t bytes[TLS_ROOM];
	struct nbd_output output = {.bytes = bytes, .size = sizeof(bytes)};
	size_t taken;

	missing = refused = 1;
	proxy = true;
	negotiate(keys);
	ck_assert_msg(negotiation.state == NEGOTIATION_READY, "%s", negotiation.reason);
	ck_assert_uint_eq(handed_over, 0);
	ck_assert_str_eq(negotiation.cipher, "1.3 AES-128-GCM");
	ck_assert_uint_eq(negotiation.record_limit, 0);
	session = negotiation_take_session(&negotiation);
	ck_assert_ptr_nonnull(session);
	ck_assert_ptr_null(negotiation_take_session(&negotiation));
	ck_assert_int_eq(tls_session_write(session, "x", 1, &taken, &output), TLS_DONE);
	tls_session_free(session);
}
END_TEST

START_TEST(proxy_gets_no_byte_after_the_last_answer)
{
	proxy = true;
	server.adds_record = true;
	assert_failed(keys, "more than its answers");
}
END_TEST

START_TEST(wrong_key_is_refused)
{
	assert_failed(other_keys, "TLS");
}
END_TEST

START_TEST(server_that_leaves_is_explained)
{
	server.leaves = true;
	assert_failed(keys, "closed the connection in the TLS handshake");
}
END_TEST

START_TEST(server_without_tls_gets_nothing)
{
	server.refuses = true;
	assert_failed(keys, "the server refuses TLS");
}
END_TEST

START_TEST(byte_in_the_clear_ends_it)
{
	server.adds_clear = true;
	assert_failed(keys, "bytes in the clear");
}
END_TEST

START_TEST(byte_after_the_last_answer_ends_it)
{
	server.adds_inside = true;
	assert_failed(keys, "more than its answers");
}
END_TEST

/* The kernel would take it for a part of a reply. */
START_TEST(record_after_the_last_answer_ends_it)
{
	server.adds_record = true;
	assert_failed(keys, "more than its answers");
}
END_TEST

START_TEST(kernel_that_refuses_is_explained)
{
	refused = 1;
	assert_failed(keys, "the kernel can't take over TLS (1.3 AES-128-GCM): the kernel refuses");
}
END_TEST

START_TEST(kernel_without_tls_is_found_before_the_server_is_asked)
{
	const struct source_tls tls = {.wanted = true, .psk = keys};
	GError *error = NULL;

	missing = 1;
	ck_assert_ptr_null(source_tls_credentials(&tls, &error));
	ck_assert_msg(strstr(error->message, "the kernel has no tls module") &&
			      strstr(error->message, "modprobe tls") &&
			      strstr(error->message, "CONFIG_TLS"),
		      "%s", error->message);
	g_error_free(error);
}
END_TEST

START_TEST(unusable_file_is_named)
{
	const struct source_tls tls = {.wanted = true, .psk = keys, .user = (char *)"carol"};
	GError *error = NULL;

	ck_assert_ptr_null(source_tls_credentials(&tls, &error));
	ck_assert_msg(strstr(error->message, keys) && strstr(error->message, "carol"), "%s",
		      error->message);
	g_error_free(error);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "negotiation", .begin = begin, .end = end},
		{.test = kernel_gets_the_keys_after_the_last_answer},
		{.test = records_may_come_in_pieces},
		{.test = proxy_gets_the_session},
		{.test = proxy_gets_no_byte_after_the_last_answer},
		{.test = wrong_key_is_refused},
		{.test = server_that_leaves_is_explained},
		{.test = server_without_tls_gets_nothing},
		{.test = byte_in_the_clear_ends_it},
		{.test = byte_after_the_last_answer_ends_it},
		{.test = record_after_the_last_answer_ends_it},
		{.test = kernel_that_refuses_is_explained},
		{.test = kernel_without_tls_is_found_before_the_server_is_asked},
		{.test = unusable_file_is_named},
		{0},
	};

	return suite_run("negotiation_tls", cases);
}
