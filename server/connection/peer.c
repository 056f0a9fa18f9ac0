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

/*
 * A client that has closed its connection, or sends no more (POLLRDHUP), is
 *
 *     THERE     if its last request is a disconnect request, and it still takes replies
 *     LEFT      if it takes none either; or if TLS hides its last request
 *     GAVE_UP   if its last request is another one
 *
 * The changes of a client that has LEFT are carried out unless others have changed the image since.
 */
enum presence {
	THERE,
	LEFT,
	GAVE_UP,
};

static bool
peer_is_encrypted(const struct conn *conn)
{
	return conn->transport.tls || conn->transport.kernel_tls;
}

/* Returns whether the last request that has come, in the input or in the socket, is a disconnect
 * request: then the NBD specification has the server carry out those before. */
static bool
peer_last_is_disc(const struct conn *conn)
{
	size_t size = nbd_request_size(&conn->queue.session), length = intake_length(&conn->intake);
	uint8_t *CLEANUP_FREE bytes = NULL;
	struct nbd_request last;
	int unread = 0;
	ssize_t n;

	/* A receive whose completion was not called yet. */
	if (!conn->intake.filling && !conn->transport.tls)
		length += transport_pending(&conn->transport);
	if (!peer_is_encrypted(conn) && ioctl(conn->transport.fd, FIONREAD, &unread) < 0)
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

static enum presence
peer_presence(struct conn *conn)
{
	const struct tls_transport *tls = conn->transport.tls;
	struct pollfd polled = {.fd = conn->transport.fd, .events = POLLRDHUP};

	if (poll(&polled, 1, 0) <= 0)
		return THERE;
	/* The last request stays the last, so one search that finds it is enough. */
	if (!conn->presence.said_disc)
		conn->presence.said_disc = peer_last_is_disc(conn);
	if (conn->presence.said_disc)
		return polled.revents & (POLLHUP | POLLERR) ? LEFT : THERE;
	if (peer_is_encrypted(conn) &&
	    (peer_sent_more(conn) || (tls && tls_transport_has_input(tls)) ||
	     transport_pending(&conn->transport) > 0))
		return LEFT;
	return GAVE_UP;
}

/* Returns how many changes of the image other connections have begun. */
static uint64_t
peer_others_changes(const struct conn *conn)
{
	return traffic_changes(conn->offer->export->traffic, conn->offer->export->threads) -
	       conn->presence.changes;
}

/* Returns whether no other connection has changed the image since the client was last known to be
 * there: nothing newer can be overwritten. */
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
	/* First, so that changes of others after the check do not count as older ones. */
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
