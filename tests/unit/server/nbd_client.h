/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client of the worker (one_worker.h) that writes and reads the bytes of NBD itself: it can send
 * several requests at once, or half of one.
 */
#ifndef TESTS_UNIT_SERVER_NBD_CLIENT_H
#define TESTS_UNIT_SERVER_NBD_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What it has said and not sent yet. */
#define CLIENT_SAYS ((size_t)4 << 20)

struct client {
	int fd;
	uint8_t *said;
	size_t length;
};

/* Connects, and sends nothing.  On a Unix socket, or over TCP. */
void
client_connect(struct client *client);
void
client_connect_tcp(struct client *client);

/* Says all of a handshake, from the client's flags to NBD_OPT_GO. */
void
client_say_handshake(struct client *client, bool structured);
/* Takes the greeting and the replies to it. */
void
client_take_handshake(struct client *client, bool structured);

/* Connects, negotiates simple replies, and is served. */
void
client_join(struct client *client);

/* Closes its socket, and forgets all. */
void
client_close(struct client *client);

/* Adds to what it says. */
void
client_say(struct client *client, const void *bytes, size_t length);
void
client_say_request(struct client *client, uint16_t type, uint16_t flags, uint64_t cookie,
		   uint64_t offset, uint32_t length);
/* A write of bytes that it makes of the seed; notes them in the disk's model when `lands`. */
void
client_say_write(struct client *client, uint16_t flags, uint64_t cookie, uint64_t offset,
		 uint32_t length, uint32_t seed, bool lands);

/* Sends what was said, in one piece as far as the socket takes it; or only its first bytes. */
void
client_send(struct client *client);
void
client_send_part(struct client *client, size_t length);

/* The next bytes. */
void
client_take(struct client *client, void *bytes, size_t length);

/* The next simple reply: its error, and which request it is for. */
uint32_t
client_take_reply(struct client *client, uint64_t *cookie);

/* The next reply is for this request and has that error (0: success). */
void
client_expect(struct client *client, uint64_t cookie, uint32_t error);
/* The next reply is the read's, with the disk's bytes as the model has them. */
void
client_expect_read(struct client *client, uint64_t cookie, uint64_t offset, uint32_t length);

/* The server has closed, and there was nothing before that. */
void
client_expect_end(struct client *client);

/* Nothing comes within a moment. */
void
client_expect_silence(struct client *client);

#endif
