/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/stuck.h"

#include "server/conn.h"
#include "server/worker.h"

#include <netinet/in.h>
#include <linux/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>

/* In the direction that is waited for: who takes none of its replies doesn't get on by sending something.  The kernel
 * completes a transfer when all of it is done; over TCP, which may be slow, it tells how far it is. */
static uint64_t
moved(const struct conn *conn)
{
	struct tcp_info info;
	socklen_t length = sizeof(info);

	if (getsockopt(conn->fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 &&
	    length >= offsetof(struct tcp_info, tcpi_segs_out))
		return conn->send_op.active ? info.tcpi_bytes_acked : info.tcpi_bytes_received;
	return conn->send_op.active ? conn->sends : conn->receives;
}

/* It has memory, and nothing but its client can make it give that back. */
static bool
depends_on_client(const struct conn *conn)
{
	return conn->buffers > 0 && !conn->lost && (conn->send_op.active || conn->filling);
}

static void
observe(struct conn *conn)
{
	struct stuck now = {.sending = conn->send_op.active, .moved = moved(conn)};

	if (depends_on_client(conn) && now.sending == conn->stuck.sending && now.moved == conn->stuck.moved)
		now.seconds = conn->stuck.seconds + 1;
	conn->stuck = now;
}

static void
end_stuck(struct conn *conn)
{
	char reason[96];

	snprintf(reason, sizeof(reason), "%s for %u seconds, while others wait for memory",
		 conn->send_op.active ? "took none of its replies" : "sent nothing of the data of a write",
		 conn->stuck.seconds);
	conn_warn(conn, reason);
	conn_end(conn, true);
}

void
stuck_check(struct worker *worker)
{
	unsigned int limit = worker->config->stuck_limit;
	bool others_wait = false;

	for (struct conn *conn = worker->conns; conn; conn = conn->next) {
		observe(conn);
		others_wait = others_wait || (conn->stalled && conn->requests < CONN_REQUESTS &&
					      conn->stuck.seconds < limit);
	}
	for (struct conn *conn = worker->conns; others_wait && conn; conn = conn->next) {
		if (conn->stuck.seconds >= limit && depends_on_client(conn))
			end_stuck(conn);
	}
}
