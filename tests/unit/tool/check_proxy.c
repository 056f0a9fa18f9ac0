/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A proxy between a kernel and a server that are played here.
 */
#include "tool/link/proxy.h"

#include "common/log.h"
#include "nbd/protocol.h"
#include "nbd/tls/session_state.h"
#include "nbd/wire.h"
#include "tests/lib/suite.h"
#include "tests/unit/nbd/tls_pair.h"

#include <check.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	READ_SIZE = NBD_REQUEST_SIZE,          /* bytes */
	WRITE_SIZE = NBD_REQUEST_SIZE + 40000, /* no multiple of a record */
	MOST = 4 << 20,                        /* bytes; more than a proxy and its sockets hold */
	LINKS = 2,
};

/* The other ends of the proxy's sockets, and the server's side of TLS. */
static struct played {
	int kernel, server;
	struct tls_session *session;
} played[LINKS];

static struct proxied proxied[LINKS];
static pthread_t thread;
static _Atomic bool gives_up; /* the kernel ends the first one when the proxy has just received */
static char logged[512];
static uint8_t out[MOST], in[MOST];

/* ---- the proxy */

static void
note(enum log_level level, const char *text)
{
	(void)level;
	snprintf(logged, sizeof(logged), "%s", text);
}

static void *
run(void *data)
{
	ck_assert_int_eq(proxy_run(proxied, LINKS, "nbds://here/"), 0);
	return data;
}

static void
make_link(unsigned int i)
{
	int kernel[2], wire[2];

	client.session = server.session = NULL;
	open_side(&server, &server_psk, NULL);
	open_side(&client, &client_psk, NULL);
	expect_done("1.3 AES-128-GCM");
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, kernel), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, wire), 0);
	played[i] = (struct played){kernel[1], wire[1], server.session};
	proxied[i] = (struct proxied){kernel[0], wire[0], client.session};
	client.session = server.session = NULL;
}

static void
make_request(uint8_t *to, uint16_t type, uint32_t length)
{
	to = wire_store32(to, NBD_REQUEST_MAGIC);
	to = wire_store16(to, 0);
	to = wire_store16(to, type);
	to = wire_store64(to, 0);
	to = wire_store64(to, 0);
	wire_store32(to, length);
}

/* What either side sends: a read, and a stream of writes. */
static void
make_requests(void)
{
	for (size_t i = 0; i < MOST; i++)
		out[i] = (uint8_t)(i * 7 + i / 251);
	make_request(out, NBD_CMD_READ, 4096);
	for (size_t at = READ_SIZE; at + NBD_REQUEST_SIZE < MOST; at += WRITE_SIZE)
		make_request(out + at, NBD_CMD_WRITE, WRITE_SIZE - NBD_REQUEST_SIZE);
}

static void
start(void)
{
	begin();
	atomic_store(&gives_up, false);
	for (unsigned int i = 0; i < LINKS; i++)
		make_link(i);
	*logged = '\0';
	log_set_sink(note);
	make_requests();
	ck_assert_int_eq(pthread_create(&thread, NULL, run, NULL), 0);
}

static void
close_played(struct played *one)
{
	if (one->kernel >= 0)
		close(one->kernel);
	if (one->server >= 0)
		close(one->server);
	tls_session_free(one->session);
}

/* The proxy ends when its connections have. */
static void
stop(void)
{
	for (unsigned int i = 0; i < LINKS; i++)
		close_played(&played[i]);
	pthread_join(thread, NULL);
	log_set_sink(NULL);
	end();
}

/* ---- the kernel */

/* In place of the C library's. */
ssize_t
recv(int fd, void *bytes, size_t size, int flags)
{
	ssize_t n = recvfrom(fd, bytes, size, flags, NULL, NULL);

	if (n > 0 && fd == proxied[0].kernel && atomic_load(&gives_up))
		shutdown(played[0].kernel, SHUT_RDWR);
	return n;
}

/* Sends until the proxy takes no more for a moment.  Returns the number of bytes. */
static size_t
stuff(int fd, const uint8_t *bytes, size_t length)
{
	size_t sent = 0;

	while (sent < length) {
		struct pollfd room = {.fd = fd, .events = POLLOUT};
		ssize_t n = send(fd, bytes + sent, length - sent, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0)
			sent += (size_t)n;
		else if (poll(&room, 1, 200) <= 0)
			break;
	}
	return sent;
}

static void
receive_in_the_clear(int fd, size_t length)
{
	ck_assert_int_eq(recv(fd, in, length, MSG_WAITALL), (ssize_t)length);
	ck_assert_int_eq(memcmp(in, out, length), 0);
}

/* ---- the server */

static uint8_t sealed[MOST + (MOST >> 6)];

/* Encrypts the first bytes of out.  Returns the length. */
static size_t
seal(const struct played *one, size_t length)
{
	struct nbd_output output = {.bytes = sealed, .size = sizeof(sealed)};
	size_t taken;

	ck_assert_int_eq(tls_session_write(one->session, out, length, &taken, &output), TLS_DONE);
	ck_assert_uint_eq(taken, length);
	return output.used;
}

static uint8_t wire[4096];

/* Decrypts until `length` bytes have come, or the connection has ended: *result says how.  Returns
 * how many have come. */
static size_t
receive_sealed(struct played *one, size_t length, enum tls_result *result)
{
	struct tls_input input = {.length = 0};
	size_t have = 0, n;

	do {
		*result = tls_session_read(one->session, &input, in + have, MOST - have, &n);
		have += n;
		if (*result == TLS_MORE && have < length) {
			ssize_t got = recv(one->server, wire, sizeof(wire), 0);

			if (got <= 0)
				break;
			input = (struct tls_input){.bytes = wire, .length = (size_t)got};
		}
	} while ((*result == TLS_DONE || *result == TLS_MORE) && have < length);
	ck_assert_int_eq(memcmp(in, out, have), 0);
	return have;
}

static void
expect_echo(struct played *one)
{
	enum tls_result result;
	size_t length;

	ck_assert_int_eq(send(one->kernel, out, READ_SIZE, 0), READ_SIZE);
	ck_assert_uint_eq(receive_sealed(one, READ_SIZE, &result), READ_SIZE);
	length = seal(one, 300);
	ck_assert_int_eq(send(one->server, sealed, length, 0), (ssize_t)length);
	receive_in_the_clear(one->kernel, 300);
}

static void
expect_end(int fd)
{
	uint8_t byte;

	ck_assert_int_le(recv(fd, &byte, 1, 0), 0);
}

/* ---- tests */

/* Neither side receives before the other can send no more. */
START_TEST(slow_side_slows_the_other_down)
{
	struct played *one = &played[0];
	const size_t length = seal(one, MOST);
	size_t down = stuff(one->server, sealed, length), up = stuff(one->kernel, out, MOST);
	enum tls_result result;

	ck_assert_uint_lt(down, length);
	ck_assert_uint_lt(up, MOST);
	/* The other connection has its turn. */
	expect_echo(&played[1]);
	/* But for the beginning of a request. */
	ck_assert_uint_ge(receive_sealed(one, up - TLS_RECORD_DATA, &result), up - TLS_RECORD_DATA);
	for (size_t have = 0; have < MOST;) {
		ssize_t n = recv(one->kernel, in + have, MOST - have, 0);

		ck_assert_int_gt(n, 0);
		have += (size_t)n;
		n = send(one->server, sealed + down, length - down, MSG_DONTWAIT);
		down += n > 0 ? (size_t)n : 0;
	}
	ck_assert_uint_eq(down, length);
	ck_assert_int_eq(memcmp(in, out, MOST), 0);
}
END_TEST

START_TEST(header_and_data_of_a_write_share_a_record)
{
	struct played *one = &played[0];
	uint8_t bytes[NBD_REQUEST_SIZE + 1000] = {0};
	struct tls_input input;
	size_t length;
	int unread = 1;

	make_request(bytes, NBD_CMD_WRITE, 1000);
	ck_assert_int_eq(send(one->kernel, bytes, NBD_REQUEST_SIZE, 0), NBD_REQUEST_SIZE);
	while (unread > 0)
		ck_assert_int_eq(ioctl(one->kernel, SIOCOUTQ, &unread), 0);
	ck_assert_int_eq(send(one->kernel, bytes + NBD_REQUEST_SIZE, 1000, 0), 1000);
	input = (struct tls_input){wire, (size_t)recv(one->server, wire, sizeof(wire), 0)};
	ck_assert_int_eq(tls_session_read(one->session, &input, in, MOST, &length), TLS_DONE);
	ck_assert_uint_eq(length, sizeof(bytes));
	ck_assert_mem_eq(in, bytes, length);
}
END_TEST

START_TEST(keys_change_on_both_sides)
{
	struct nbd_output output = {.bytes = sealed, .size = sizeof(sealed)};

	for (unsigned int i = 0; i < 3; i++) {
		output.used = 0;
		played[0].session->output = &output;
		ck_assert_int_eq(gnutls_session_key_update(played[0].session->tls, GNUTLS_KU_PEER),
				 0);
		played[0].session->output = NULL;
		ck_assert_int_eq(send(played[0].server, sealed, output.used, 0),
				 (ssize_t)output.used);
		expect_echo(&played[0]);
	}
	expect_echo(&played[0]);
}
END_TEST

/* Nothing of a record that was changed on the way reaches the kernel. */
START_TEST(changed_record_ends_one_connection)
{
	size_t length = seal(&played[0], 300);

	sealed[length / 2] ^= 1;
	ck_assert_int_eq(send(played[0].server, sealed, length, 0), (ssize_t)length);
	expect_end(played[0].kernel);
	expect_end(played[0].server);
	ck_assert_msg(strncmp(logged, "nbds://here/: TLS: ", 19) == 0, "%s", logged);
	expect_echo(&played[1]);
}
END_TEST

START_TEST(last_replies_of_a_server_arrive)
{
	size_t length = seal(&played[0], 300000);
	struct nbd_output output = {.bytes = sealed + length, .size = sizeof(sealed) - length};

	tls_session_close(played[0].session, &output);
	length += output.used;
	ck_assert_uint_eq(stuff(played[0].server, sealed, length), length);
	receive_in_the_clear(played[0].kernel, 300000);
	expect_end(played[0].kernel);
	expect_end(played[0].server);
	ck_assert_str_eq(logged, "");
	expect_echo(&played[1]);
}
END_TEST

START_TEST(server_that_dies_ends_the_connection)
{
	close(played[0].server);
	played[0].server = -1;
	expect_end(played[0].kernel);
	expect_echo(&played[1]);
}
END_TEST

/* The server receives when the kernel has ended the connection. */
START_TEST(disconnect_of_a_device_arrives)
{
	const size_t length = READ_SIZE + 2 * WRITE_SIZE + NBD_REQUEST_SIZE;
	enum tls_result result;

	make_request(out + length - NBD_REQUEST_SIZE, NBD_CMD_DISC, 0);
	ck_assert_int_eq(send(played[0].kernel, out, length, 0), (ssize_t)length);
	shutdown(played[0].kernel, SHUT_RDWR);
	expect_echo(&played[1]);
	ck_assert_uint_eq(receive_sealed(&played[0], MOST, &result), length);
	ck_assert_int_eq(result, TLS_CLOSED);
}
END_TEST

/* Writes would otherwise come after their repetitions. */
START_TEST(what_the_kernel_gave_up_is_dropped)
{
	const size_t sent = stuff(played[0].kernel, out, MOST);
	enum tls_result result;

	ck_assert_uint_lt(sent, MOST);
	shutdown(played[0].kernel, SHUT_RDWR);
	expect_echo(&played[1]);
	ck_assert_uint_lt(receive_sealed(&played[0], MOST, &result), sent);
	ck_assert_int_ne(result, TLS_CLOSED);
}
END_TEST

/* A proxy that waits for a processor between two steps may wait for longer than the kernel. */
START_TEST(what_the_kernel_gave_up_just_now_is_dropped)
{
	enum tls_result result;

	atomic_store(&gives_up, true);
	ck_assert_int_eq(send(played[0].kernel, out, WRITE_SIZE, 0), WRITE_SIZE);
	ck_assert_uint_eq(receive_sealed(&played[0], MOST, &result), 0);
	ck_assert_int_ne(result, TLS_CLOSED);
	expect_echo(&played[1]);
}
END_TEST

/* The server isn't told that all is well. */
START_TEST(data_that_look_like_a_disconnect_are_data)
{
	const size_t length = READ_SIZE + WRITE_SIZE - 100;
	enum tls_result result;

	make_request(out + length - NBD_REQUEST_SIZE, NBD_CMD_DISC, 0);
	ck_assert_int_eq(send(played[0].kernel, out, length, 0), (ssize_t)length);
	shutdown(played[0].kernel, SHUT_RDWR);
	receive_sealed(&played[0], MOST, &result);
	ck_assert_int_ne(result, TLS_CLOSED);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "bytes",
		 .begin_once = make_directory,
		 .end_once = remove_directory,
		 .begin = start,
		 .end = stop},
		{.test = slow_side_slows_the_other_down},
		{.test = header_and_data_of_a_write_share_a_record},
		{.test = keys_change_on_both_sides},
		{.test = changed_record_ends_one_connection},
		{.test = last_replies_of_a_server_arrive},
		{.test = server_that_dies_ends_the_connection},
		{.test = disconnect_of_a_device_arrives},
		{.test = what_the_kernel_gave_up_is_dropped},
		{.test = what_the_kernel_gave_up_just_now_is_dropped},
		{.test = data_that_look_like_a_disconnect_are_data},
		{0},
	};

	return suite_run("proxy", cases);
}
