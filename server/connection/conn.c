/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/conn.h"

#include "server/access/identity.h"

#include "common/clock.h"
#include "common/log.h"

#include <stdio.h>

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
	if (!conn_is_lost(conn))
		transport_abort(&conn->transport);
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
conn_pause(struct conn *conn)
{
	conn->paused = true;
	if (!conn->paused_since)
		conn->paused_since = clock_seconds(CLOCK_MONOTONIC_COARSE);
}

void
conn_starve(struct conn *conn)
{
	conn_pause(conn);
	conn->worker->starved = true;
}

void
conn_check_deadline(struct conn *conn, time_t now)
{
	char reason[64];

	if ((!conn->negotiation && conn->life != CONN_LINGERS) || now < conn->deadline ||
	    conn_is_lost(conn))
		return;
	if (conn->life != CONN_LINGERS) {
		snprintf(reason, sizeof(reason), "did not finish the handshake in %u seconds",
			 conn->worker->config->handshake_limit);
		conn_warn(conn, reason);
	}
	conn_abort(conn);
}
