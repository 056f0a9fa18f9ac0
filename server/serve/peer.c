/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/serve/peer.h"

#include "server/serve/conn_state.h"
#include "server/serve/served.h"
#include "server/serve/traffic.h"

#include "common/cleanup.h"
#include "nbd/request.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* A change may be carried out so long after its client was known to be there.  Less than any
 * client's patience, and so long that a client that goes on sending is seldom asked for. */
#define ABSENCE_MAX UINT64_C(100000000) /* ns */

/* Bytes of the input, from its start, with bytes that were received and whose completion was not
 * called yet. */
static size_t
input_length(const struct conn *conn)
{
	size_t length = conn->input_end - conn->input_start;
	int received;

	if (!conn->filling && conn->recv_op.active &&
	    loop_has_result(conn->worker->loop, &conn->recv_op, &received) && received > 0)
		length += (size_t)received;
	return length;
}

/* The last of what it sent, in the input or after it in the socket, asks for the end: then it
 * counts on the requests before to be carried out, as specified. */
static bool
last_is_disc(const struct conn *conn)
{
	size_t size = nbd_request_size(&conn->session), length = input_length(conn);
	uint8_t *CLEANUP_FREE bytes = NULL;
	struct nbd_request last;
	int unread;
	ssize_t n;

	if (ioctl(conn->fd, FIONREAD, &unread) < 0)
		return false;
	bytes = malloc(length + (size_t)unread + 1);
	if (!bytes)
		return false;
	memcpy(bytes, conn->input + conn->input_start, length);
	n = recv(conn->fd, bytes + length, (size_t)unread, MSG_PEEK | MSG_DONTWAIT);
	if (n > 0)
		length += (size_t)n;
	return length >= size &&
	       nbd_request_decode(&conn->session, bytes + length - size, &last) == 0 &&
	       last.type == NBD_CMD_DISC;
}

enum presence {
	THERE,
	LEFT, /* it has closed the connection, after a disconnect request that was received */
	GAVE_UP,
};

static enum presence
presence_of(struct conn *conn)
{
	struct pollfd polled = {.fd = conn->fd, .events = POLLRDHUP};

	if (poll(&polled, 1, 0) <= 0)
		return THERE;
	/* It sends no more, but may be waiting for answers.  Its last request stays the last: it is
	 * looked for once, among all that is unread. */
	if (!conn->presence.said_disc)
		conn->presence.said_disc = last_is_disc(conn);
	if (!conn->presence.said_disc)
		return GAVE_UP;
	return polled.revents & (POLLHUP | POLLERR) ? LEFT : THERE;
}

/* Of the same image. */
static uint64_t
changes_of_others(const struct conn *conn)
{
	return traffic_changes(conn->served->traffic, conn->worker->config->workers) -
	       conn->presence.changes;
}

/* Nothing newer can be overwritten. */
static bool
is_alone(const struct conn *conn)
{
	return changes_of_others(conn) == conn->presence.others_changes;
}

bool
peer_left(struct conn *conn)
{
	return presence_of(conn) == LEFT && is_alone(conn);
}

bool
peer_gave_up(struct conn *conn)
{
	enum presence presence = presence_of(conn);

	return presence == GAVE_UP || (presence == LEFT && !is_alone(conn));
}

bool
peer_may_change(struct conn *conn)
{
	uint64_t now = worker_clock(), others;

	if (now - conn->presence.seen <= ABSENCE_MAX)
		return true;
	/* Before it is asked for: changes that others make after it has gone do not count. */
	others = changes_of_others(conn);
	switch (presence_of(conn)) {
	case THERE:
		conn->presence.seen = now;
		conn->presence.others_changes = others;
		return true;
	case LEFT: return is_alone(conn);
	default: return false;
	}
}

bool
peer_sent_more(const struct conn *conn)
{
	int unread;

	return ioctl(conn->fd, FIONREAD, &unread) == 0 && unread > 0;
}
