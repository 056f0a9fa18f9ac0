/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The facts about a connection's client that are known without reading from its socket.
 */
#ifndef SERVER_CONNECTION_PEER_H
#define SERVER_CONNECTION_PEER_H

#include <stdbool.h>

struct conn;

/*
 * Returns whether the client has closed the connection, or sends no more, without a disconnect
 * request (or with one, but others have changed its image since; see below). Then it may have
 * repeated its requests over another connection. Costs a system call, and more when it is first
 * found that the client sends no more.
 */
bool
peer_gave_up(struct conn *conn);

/* Returns whether the client has closed the connection after NBD_CMD_DISC, and its requests before
 * that are to be carried out; see below. */
bool
peer_left(struct conn *conn);

/*
 * Returns whether a change of this client, whose range is held by now, may be carried out.
 *
 * A client that loses patience closes its connection, repeats its change over another one, and
 * sends newer changes there. The first change, delayed in the socket, the input or its range, must
 * not overwrite those. So the client must have been there while the range was held, or at most 100
 * ms before (CLOCK_BOOTTIME). Two cases stay open: a client that gives up, and is answered
 * elsewhere, within these 100 ms; and over TCP, a close that can't be seen because the socket's
 * receive buffer is full.
 *
 * After NBD_CMD_DISC, a client may close its socket without waiting: the NBD specification has its
 * changes carried out. This server does that only if no other connection has changed the image
 * since the client was last known to be there: the client may have connected again. Over TCP, a
 * closed socket looks like one that sends no more and waits, until it is answered.
 *
 * Reads the clock, and checks the socket at most once in 100 ms.
 */
bool
peer_may_change(struct conn *conn);

/* Returns whether the socket has unread bytes. Costs a system call. */
bool
peer_sent_more(const struct conn *conn);

/* Bytes were received; `all`: none is left unread. If the receive before had left none unread, the
 * client sent these after that receive had begun: it was there then. */
void
peer_note_bytes(struct conn *conn, bool all);

#endif
