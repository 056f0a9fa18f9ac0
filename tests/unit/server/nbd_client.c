/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/server/nbd_client.h"

#include "nbd/protocol.h"
#include "nbd/wire.h"
#include "tests/unit/fake_image.h"
#include "tests/unit/server/one_worker.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* Seconds until a test gives up, and how long a silence is: too long for an answer that should not
 * be there. */
#define PATIENCE   20
#define SILENCE_MS 20

static void
client_init(struct client *client, int fd)
{
	const struct timeval patience = {.tv_sec = PATIENCE};

	*client = (struct client){.fd = fd, .said = malloc(CLIENT_SAYS)};
	ck_assert_ptr_nonnull(client->said);
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)), 0);
}

void
client_connect(struct client *client)
{
	int ends[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	client_init(client, ends[0]);
	worker_take(ends[1]);
}

void
client_connect_tcp(struct client *client)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd, accepted;

	ck_assert_int_ge(listener, 0);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, length), 0);
	ck_assert_int_eq(listen(listener, 1), 0);
	ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &length), 0);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, length), 0);
	accepted = accept(listener, NULL, NULL);
	ck_assert_int_ge(accepted, 0);
	close(listener);
	client_init(client, fd);
	worker_take(accepted);
}

static void
say_number(struct client *client, uint64_t number, unsigned int bytes)
{
	uint8_t wire[8];

	wire_store64(wire, number);
	client_say(client, wire + 8 - bytes, bytes);
}

static void
say_option(struct client *client, uint32_t option, uint32_t length)
{
	say_number(client, NBD_OPTION_MAGIC, 8);
	say_number(client, option, 4);
	say_number(client, length, 4);
}

void
client_say_handshake(struct client *client, bool structured)
{
	say_number(client, NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES, 4);
	if (structured)
		say_option(client, NBD_OPT_STRUCTURED_REPLY, 0);
	say_option(client, NBD_OPT_GO, 4 + 4 + 2);
	say_number(client, 4, 4);
	client_say(client, "disk", 4);
	say_number(client, 0, 2);
}

/* Replies to the option, as far as its ACK. */
static void
take_ack(struct client *client, uint32_t option)
{
	uint8_t header[NBD_REP_HEADER_SIZE], data[256];
	uint32_t type;

	do {
		uint32_t length;

		client_take(client, header, sizeof(header));
		ck_assert_uint_eq(wire_load64(header), NBD_REP_MAGIC);
		ck_assert_uint_eq(wire_load32(header + 8), option);
		type = wire_load32(header + 12);
		length = wire_load32(header + 16);
		ck_assert_uint_le(length, sizeof(data));
		client_take(client, data, length);
		ck_assert_msg(type == NBD_REP_ACK || type == NBD_REP_INFO, "reply 0x%x", type);
	} while (type != NBD_REP_ACK);
}

void
client_take_handshake(struct client *client, bool structured)
{
	uint8_t greeting[NBD_GREETING_SIZE];

	client_take(client, greeting, sizeof(greeting));
	ck_assert_uint_eq(wire_load64(greeting), NBD_MAGIC);
	if (structured)
		take_ack(client, NBD_OPT_STRUCTURED_REPLY);
	take_ack(client, NBD_OPT_GO);
}

void
client_join(struct client *client)
{
	client_connect(client);
	client_say_handshake(client, false);
	client_send(client);
	client_take_handshake(client, false);
}

void
client_close(struct client *client)
{
	ck_assert_int_eq(close(client->fd), 0);
	free(client->said);
}

void
client_say(struct client *client, const void *bytes, size_t length)
{
	ck_assert_uint_le(client->length + length, CLIENT_SAYS);
	memcpy(client->said + client->length, bytes, length);
	client->length += length;
}

void
client_say_request(struct client *client, uint16_t type, uint16_t flags, uint64_t cookie,
		   uint64_t offset, uint32_t length)
{
	say_number(client, NBD_REQUEST_MAGIC, 4);
	say_number(client, flags, 2);
	say_number(client, type, 2);
	say_number(client, cookie, 8);
	say_number(client, offset, 8);
	say_number(client, length, 4);
}

void
client_say_write(struct client *client, uint16_t flags, uint64_t cookie, uint64_t offset,
		 uint32_t length, uint32_t seed, bool lands)
{
	unsigned char *bytes = malloc(length);

	ck_assert_ptr_nonnull(bytes);
	buffer_fill(bytes, length, seed);
	client_say_request(client, NBD_CMD_WRITE, flags, cookie, offset, length);
	client_say(client, bytes, length);
	if (lands)
		memcpy(fake_image_at(&disk, offset), bytes, length);
	free(bytes);
}

void
client_send_part(struct client *client, size_t length)
{
	ck_assert_uint_le(length, client->length);
	for (size_t sent = 0; sent < length;) {
		ssize_t n = send(client->fd, client->said + sent, length - sent, MSG_NOSIGNAL);

		ck_assert_int_gt(n, 0);
		sent += (size_t)n;
	}
	client->length -= length;
	memmove(client->said, client->said + length, client->length);
}

void
client_send(struct client *client)
{
	client_send_part(client, client->length);
}

void
client_take(struct client *client, void *bytes, size_t length)
{
	size_t taken = 0;
	ssize_t n = 1;

	/* Not with MSG_WAITALL: the patience is for each piece. */
	while (taken < length && n > 0) {
		n = recv(client->fd, (char *)bytes + taken, length - taken, 0);
		taken += n > 0 ? (size_t)n : 0;
	}
	ck_assert_msg(taken == length, "%zu bytes came instead of %zu", taken, length);
}

uint32_t
client_take_reply(struct client *client, uint64_t *cookie)
{
	uint8_t header[NBD_SIMPLE_REPLY_SIZE];

	client_take(client, header, sizeof(header));
	ck_assert_uint_eq(wire_load32(header), NBD_SIMPLE_REPLY_MAGIC);
	*cookie = wire_load64(header + 8);
	return wire_load32(header + 4);
}

void
client_expect(struct client *client, uint64_t cookie, uint32_t error)
{
	uint64_t replied;
	uint32_t result = client_take_reply(client, &replied);

	ck_assert_uint_eq(replied, cookie);
	ck_assert_msg(result == error, "request %u: error %u, not %u", (unsigned int)cookie, result,
		      error);
}

void
client_expect_read(struct client *client, uint64_t cookie, uint64_t offset, uint32_t length)
{
	unsigned char *bytes = malloc(length);

	ck_assert_ptr_nonnull(bytes);
	client_expect(client, cookie, 0);
	client_take(client, bytes, length);
	ck_assert_mem_eq(bytes, fake_image_at(&disk, offset), length);
	free(bytes);
}

void
client_expect_end(struct client *client)
{
	char byte;

	ck_assert_int_eq(recv(client->fd, &byte, 1, 0), 0);
}

void
client_expect_silence(struct client *client)
{
	struct pollfd polled = {.fd = client->fd, .events = POLLIN};

	ck_assert_int_eq(poll(&polled, 1, SILENCE_MS), 0);
}
