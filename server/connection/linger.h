/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a connection over TCP, on which all is answered.
 */
#ifndef SERVER_CONNECTION_LINGER_H
#define SERVER_CONNECTION_LINGER_H

#include <stdbool.h>

struct conn;

/* Closing a TCP socket that has unread bytes, or still receives some, resets the connection, and
 * the last replies would be lost.  So only the sending side is closed first, and input is discarded
 * until the client has closed its side.  False: lingering is not necessary, or no longer. */
bool
conn_linger(struct conn *conn);

#endif
