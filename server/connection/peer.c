/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/peer.h"

#include "server/connection/conn.h"
#include "server/connection/offer.h"
#include "server/connection/tls_transport.h"
#include "server/request/traffic.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "nbd/request.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

/* How long after its client was known to be there a change may be carried out: shorter than any
 * client's patience, but so long that a client that keeps sending is seldom checked. */
#define ABSENCE_MAX UINT64_C(100000000) /* ns */

static bool
peer_is_encrypted(const struct conn *conn)
{
	return conn->transport.tls || conn->transport.kernel_tls;
}

/* Returns whether the last request that it sent, in the input or still in the socket, is a
 * disconnect request: then the requests before must be carried out, as specified. */
static bool
peer_last_is_disc(const struct conn *conn)
{
	size_t size = nbd_request_size(&conn->queue.session), length = intake_length(&conn->intake);
	uint8_t *CLEANUP_FREE bytes = NULL;
	struct nbd_request last;
	int unread;
	ssize_t n;

	/* A receive whose completion was not called yet. */
	if (!conn->intake.filling && !conn->transport.tls)
		length += transport_pending(&conn->transport);
	/* Under TLS, bytes that were not received can't be looked at: see peer_may_be_disc(). */
	if (peer_is_encrypted(conn))
		unread = 0;
	else if (ioctl(conn->transport.fd, FIONREAD, &unread) < 0)
		return false;
	bytes = malloc(length + (size_t)unread + 1);
	if (!bytes)
		return false;
	memcpy(bytes, conn->intake.bytes + conn->intake.start, length);
	n = unread > 0 ? recv(conn->transport.fd, bytes + length, (size_t)unread,
			      MSG_PEEK | MSG_DONTWAIT)
		       : 0;
	if (n > 0)
		length += (size_t)n;
	return length >= size &&
	       nbd_request_decode(&conn->queue.session, bytes + length - size, &last) == 0 &&
	       last.type == NBD_CMD_DISC;
}

enum presence {
	THERE,
	LEFT, /* it has closed the connection, after a disconnect request that was received */
	GAVE_UP,
};

/* Returns whether bytes have come that are encrypted: the last of them may be a disconnect request.
 */
static bool
peer_may_be_disc(const struct conn *conn)
{
	const struct tls_transport *tls = conn->transport.tls;

	return peer_is_encrypted(conn) &&
	       (peer_sent_more(conn) || (tls && tls_transport_has_input(tls)) ||
		transport_pending(&conn->transport) > 0);
}

static enum presence
peer_presence(struct conn *conn)
{
	struct pollfd polled = {.fd = conn->transport.fd, .events = POLLRDHUP};

	if (poll(&polled, 1, 0) <= 0)
		return THERE;
	/* It sends no more, but may wait for replies. Its last request stays the last, so one
	 * search in the unread bytes that finds it is enough. */
	if (!conn->presence.said_disc)
		conn->presence.said_disc = peer_last_is_disc(conn);
	/* If that is not known, its changes are carried out only if no other connection has changed
	 * the image since. */
	if (!conn->presence.said_disc)
		return peer_may_be_disc(conn) ? LEFT : GAVE_UP;
	return polled.revents & (POLLHUP | POLLERR) ? LEFT : THERE;
}

/* Changes of the image by other connections. */
static uint64_t
peer_others_changes(const struct conn *conn)
{
	return traffic_changes(conn->offer->export->traffic, conn->offer->export->threads) -
	       conn->presence.changes;
}

/* No other connection has changed the image since: nothing newer can be overwritten. */
static bool
peer_is_alone(const struct conn *conn)
{
	return peer_others_changes(conn) == conn->presence.others_changes;
}

bool
peer_left(struct conn *conn)
{
	return peer_presence(conn) == LEFT && peer_is_alone(conn);
}

bool
peer_gave_up(struct conn *conn)
{
	enum presence presence = peer_presence(conn);

	return presence == GAVE_UP || (presence == LEFT && !peer_is_alone(conn));
}

bool
peer_may_change(struct conn *conn)
{
	uint64_t now = clock_ns(CLOCK_BOOTTIME), others;

	if (now - conn->presence.seen <= ABSENCE_MAX)
		return true;
	/* Read before the check, so that changes of others after it are not taken for older ones.
	 */
	others = peer_others_changes(conn);
	switch (peer_presence(conn)) {
	case THERE:
		conn->presence.seen = now;
		conn->presence.others_changes = others;
		return true;
	case LEFT: return peer_is_alone(conn);
	default: return false;
	}
}

bool
peer_sent_more(const struct conn *conn)
{
	int unread;

	return ioctl(conn->transport.fd, FIONREAD, &unread) == 0 && unread > 0;
}

void
peer_note_bytes(struct conn *conn, bool all)
{
	struct conn_presence *presence = &conn->presence;

	if (presence->all_received && presence->received_since > presence->seen)
		presence->seen = presence->received_since;
	presence->all_received = all;
	presence->received_since = presence->receiving_since;
}
