/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/conn_state.h"

#include "server/access/identity.h"

#include "common/clock.h"
#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void
conn_warn(const struct conn *conn, const char *reason)
{
	static struct log_limit limit = LOG_LIMIT_INIT(20, 60);
	unsigned int suppressed;
	char more[LOG_LEFT_OUT];

	if (!log_limit_pass(&limit, &suppressed))
		return;
	log_warning("%s: disconnected: %s%s", conn->identity->text, reason,
		    log_left_out(suppressed, more));
}

void
conn_warn_of_error(const struct conn *conn, int result)
{
	if (result == -EIO && conn->kernel_tls && !conn_is_closing(conn)) {
		conn_warn(conn, "TLS: the client sent a message other than data, such as an alert "
				"or new keys");
		return;
	}
	if (result < 0 && result != -ECONNRESET && result != -EPIPE && result != -ECANCELED &&
	    !conn_is_closing(conn))
		conn_warn(conn, strerror(-result));
}

void
conn_close(struct conn *conn)
{
	if (conn->life < CONN_CLOSES)
		conn->life = CONN_CLOSES;
	conn_mark_dirty(conn);
}

void
conn_abort(struct conn *conn)
{
	conn_close(conn);
	if (conn->lost)
		return;
	conn->lost = true;
	/* Completes operations that wait for the peer. */
	shutdown(conn->fd, SHUT_RDWR);
	loop_cancel(conn->worker->loop, &conn->recv_op);
	loop_cancel(conn->worker->loop, &conn->send_op);
}

void
conn_drain(struct conn *conn)
{
	if (conn->life == CONN_SERVES)
		conn->life = CONN_DRAINS;
	conn_mark_dirty(conn);
}

void
conn_refuse_requests(struct conn *conn)
{
	conn_drain(conn);
	if (conn->life == CONN_DRAINS)
		conn->life = CONN_REFUSES;
}

void
conn_stall(struct conn *conn)
{
	conn->stalled = true;
	conn->worker->starved = true;
	if (!conn->stalled_since)
		conn->stalled_since = clock_seconds(CLOCK_MONOTONIC_COARSE);
}

void
conn_check_deadline(struct conn *conn, time_t now)
{
	char reason[64];

	if ((!conn->negotiation && conn->life != CONN_LINGERS) || now < conn->deadline ||
	    conn->lost)
		return;
	if (conn->life != CONN_LINGERS) {
		snprintf(reason, sizeof(reason), "did not finish the handshake in %u seconds",
			 conn->worker->config->handshake_limit);
		conn_warn(conn, reason);
	}
	conn_abort(conn);
}
