/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/linger.h"

#include "server/access/identity.h"
#include "server/connection/conn_state.h"
#include "server/connection/conn_tls.h"

#include "common/clock.h"

#include <sys/socket.h>

/* Seconds for the client to receive the last replies, and to close its end. */
#define LINGER_LIMIT 2

bool
conn_linger(struct conn *conn)
{
	if (conn->lost || conn->end_of_input ||
	    (conn->life != CONN_LINGERS && conn->identity->kind != IDENTITY_INET))
		return false;
	if (conn->life != CONN_LINGERS) {
		/* With TLS, a client takes an end that was not announced for an attack. */
		conn_tls_say_end(conn);
		shutdown(conn->fd, SHUT_WR);
		conn->deadline = clock_seconds(CLOCK_MONOTONIC) + LINGER_LIMIT;
		conn->life = CONN_LINGERS;
		if (!conn->negotiation)
			conn->worker->deadlines++;
	}
	if (!conn->recv_op.active)
		loop_recv(conn->worker->loop, &conn->recv_op, conn->fd, conn->input, CONN_INPUT,
			  false);
	return true;
}
