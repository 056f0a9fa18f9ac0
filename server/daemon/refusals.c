/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon/refusals.h"

#include "common/accept_pause.h"
#include "common/cleanup.h"
#include "common/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Milliseconds for the whole handshake, also of a client that is far away. */
#define REFUSED_LIMIT 5000

/* Most options: clients ask for some features first, and read the reason only in the reply to the
 * option that chooses an export. */
#define REFUSED_OPTIONS 16

void
refusals_init(struct refusals *refusals, unsigned int max)
{
	*refusals = (struct refusals){0};
	snprintf(refusals->text, sizeof(refusals->text),
		 "nbdloopd has no place for another client (--max-connections=%u)", max);
	refusals->refusal =
		(struct nbd_refusal){.type = NBD_REP_ERR_POLICY, .message = refusals->text};
}

static void
close_refused(struct refused *client)
{
	free(steal_pointer(&client->handshake));
	close(client->fd);
}

/* A client that leaves no room for so few bytes doesn't read them. */
static bool
refusal_send(const struct refused *client, struct nbd_output *output)
{
	ssize_t sent = send(client->fd, output->bytes, output->used, MSG_DONTWAIT | MSG_NOSIGNAL);
	bool whole = sent == (ssize_t)output->used;

	output->used = 0;
	return whole;
}

int
refusals_list(struct refusals *refusals, struct pollfd *polled, int timeout)
{
	for (unsigned int i = 0; i < REFUSALS_MAX; i++) {
		struct refused *client = &refusals->clients[i];
		int64_t left;

		polled[i] = (struct pollfd){.fd = -1};
		if (!client->handshake)
			continue;
		left = client->until - clock_ms(CLOCK_MONOTONIC);
		if (left <= 0) {
			close_refused(client);
			continue;
		}
		polled[i] = (struct pollfd){.fd = client->fd, .events = POLLIN};
		timeout = accept_pause_timeout(timeout, (int)left);
	}
	return timeout;
}

/* Returns false if the client is to be closed. */
static bool
answer_options(struct refused *client, const uint8_t *input, size_t length)
{
	uint8_t bytes[NBD_HANDSHAKE_ROOM];
	struct nbd_output output = {bytes, sizeof(bytes), 0};
	enum nbd_handshake_result result;
	size_t consumed;

	do {
		result = nbd_handshake_feed(client->handshake, input, length, &consumed, &output);
		input += consumed;
		length -= consumed;
		if (!refusal_send(client, &output))
			return false;
	} while (result == NBD_HANDSHAKE_FULL);
	if (result == NBD_HANDSHAKE_CLOSE) {
		/* A close of a TCP socket with unread input would take the replies away. */
		shutdown(client->fd, SHUT_WR);
		client->over = true;
	}
	return true;
}

static bool
refusal_answer(struct refused *client)
{
	uint8_t input[4096];
	ssize_t length = recv(client->fd, input, sizeof(input), MSG_DONTWAIT);

	if (length < 0)
		return errno == EAGAIN || errno == EINTR;
	if (length == 0)
		return false;
	return client->over || answer_options(client, input, (size_t)length);
}

void
refusals_answer(struct refusals *refusals, const struct pollfd *polled)
{
	for (unsigned int i = 0; i < REFUSALS_MAX; i++) {
		if (polled[i].revents && !refusal_answer(&refusals->clients[i]))
			close_refused(&refusals->clients[i]);
	}
}

static struct refused *
free_place(struct refusals *refusals)
{
	for (unsigned int i = 0; i < REFUSALS_MAX; i++) {
		if (!refusals->clients[i].handshake)
			return &refusals->clients[i];
	}
	return NULL;
}

/* A client that has left may not have been noticed yet. */
static struct refused *
find_place(struct refusals *refusals)
{
	struct refused *client = free_place(refusals);
	struct pollfd polled[REFUSALS_MAX];

	if (client)
		return client;
	refusals_list(refusals, polled, 0);
	if (poll(polled, REFUSALS_MAX, 0) > 0)
		refusals_answer(refusals, polled);
	return free_place(refusals);
}

void
refusals_add(struct refusals *refusals, int fd)
{
	const struct nbd_handshake_config config = {
		.options = REFUSED_OPTIONS,
		.skip = NBD_OPTION_MAX,
		.refusal = &refusals->refusal,
	};
	struct refused *client = find_place(refusals);
	struct nbd_handshake *handshake = client ? malloc(sizeof(*handshake)) : NULL;
	uint8_t bytes[NBD_GREETING_SIZE];
	struct nbd_output output = {bytes, sizeof(bytes), 0};

	if (!handshake) {
		close(fd);
		return;
	}
	*client = (struct refused){
		.handshake = handshake,
		.fd = fd,
		.until = clock_ms(CLOCK_MONOTONIC) + REFUSED_LIMIT,
	};
	nbd_handshake_init(handshake, &config);
	nbd_handshake_greet(handshake, &output);
	if (!refusal_send(client, &output))
		close_refused(client);
}

void
refusals_close(struct refusals *refusals)
{
	for (unsigned int i = 0; i < REFUSALS_MAX; i++) {
		if (refusals->clients[i].handshake)
			close_refused(&refusals->clients[i]);
	}
}
