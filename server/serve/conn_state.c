/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/serve/conn_state.h"

#include "common/log.h"

void
conn_warn(const struct conn *conn, const char *reason)
{
	static struct log_limit limit = LOG_LIMIT_INIT(20, 60);
	unsigned int suppressed;
	char more[LOG_LEFT_OUT];

	if (!log_limit_pass(&limit, &suppressed))
		return;
	log_warning("%s: disconnected: %s%s", conn->peer, reason, log_left_out(suppressed, more));
}

void
conn_end(struct conn *conn, bool now)
{
	conn->closing = true;
	conn_mark_dirty(conn);
	if (!now || conn->lost)
		return;
	conn->lost = true;
	/* Completes what waits for the peer. */
	shutdown(conn->fd, SHUT_RDWR);
	loop_cancel(conn->worker->loop, &conn->recv_op);
	loop_cancel(conn->worker->loop, &conn->send_op);
}

void
conn_drain(struct conn *conn, bool refuse)
{
	conn->draining = true;
	conn->refusing = conn->refusing || refuse;
	conn_mark_dirty(conn);
}

void
conn_stall(struct conn *conn)
{
	struct timespec now;

	conn->stalled = true;
	conn->worker->starved = true;
	if (conn->stalled_since)
		return;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	conn->stalled_since = now.tv_sec;
}
