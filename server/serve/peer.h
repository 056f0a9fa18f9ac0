/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Facts about the other end of a connection, learnt without reading from it.
 */
#ifndef SERVER_SERVE_PEER_H
#define SERVER_SERVE_PEER_H

#include <stdbool.h>

struct conn;

/*
 * Whether the client of a connection that exchanges requests has closed it, or sends no more,
 * without a disconnect request (or others have changed its image since, see below): then it may
 * have sent again elsewhere what it sent here.  Costs a system call; more when it is first seen
 * that it sends no more.
 */
bool
peer_gave_up(struct conn *conn);

/* Whether it has closed the connection, but its requests before NBD_CMD_DISC are to be carried out:
 * see below. */
bool
peer_left(struct conn *conn);

/*
 * Whether a change of this client may be carried out, whose range is held by now.
 *
 * A client that loses patience closes its connection, sends its change again over another one, and
 * then newer changes.  None of those may be overwritten by the first one, however long it has
 * waited, in the socket, in the input or for its range: the thread may have been kept, or the
 * process stopped, or the machine suspended.  So a change is carried out only if, while its range
 * was held already, its client was asked for, or had been known to be there not more than 100 ms
 * before, on CLOCK_BOOTTIME.  A request that a client sends after it has given up comes later than
 * that, and waits for the range.  Left open is a client that gives up, and is answered elsewhere,
 * in less than these 100 ms; and over TCP, one whose end can't be seen because the socket's receive
 * buffer is full.
 *
 * A client that sent NBD_CMD_DISC after its changes, and closed its socket without waiting
 * for answers or for our end, has asked for them in order: the NBD specification has us handle
 * them.  That it comes back and changes the same bytes anew, before we have come to its old
 * changes, is its own risk there, but not one that it is left to run: they are carried out unless
 * somebody else has changed the image since the client was last known to be there.  Over TCP, a
 * client that has closed can't be told from one that sends no more, and waits, until it is
 * answered.
 *
 * Reads the clock, and asks at most once in 100 ms of a connection's time.
 */
bool
peer_may_change(struct conn *conn);

/* Whether there is something unread.  Costs a system call. */
bool
peer_sent_more(const struct conn *conn);

#endif
