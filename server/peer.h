/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What can be told of the other end of a connection without reading from it.
 */
#ifndef SERVER_PEER_H
#define SERVER_PEER_H

#include <stdbool.h>

struct conn;

/*
 * Whether the client of a connection that exchanges requests, and receives nothing now, has closed it, or sends no
 * more without having taken leave: then it may have sent again elsewhere what is unread here.  Costs a system
 * call; more when it is first seen that it sends no more.
 */
bool
peer_gave_up(struct conn *conn);

/* Whether there is something unread.  Costs a system call. */
bool
peer_sent_more(const struct conn *conn);

#endif
