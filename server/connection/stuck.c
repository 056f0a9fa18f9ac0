/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/stuck.h"

#include "server/connection/conn_state.h"

#include <netinet/in.h>
#include <linux/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>

/* Over TCP, which may be slow, the kernel tells the progress within a transfer; elsewhere it may be
 * known only when all of it is done. */
static void
read_progress(const struct conn *conn, uint64_t *in, uint64_t *out)
{
	struct tcp_info info;
	socklen_t length = sizeof(info);

	*in = conn->bytes_in;
	*out = conn->bytes_out;
	if (getsockopt(conn->fd, IPPROTO_TCP, TCP_INFO, &info, &length) < 0 ||
	    length < offsetof(struct tcp_info, tcpi_segs_out))
		return;
	*in = info.tcpi_bytes_received;
	*out = info.tcpi_bytes_acked;
}

/* Bytes in the other direction are no progress, nor are only a few. */
static void
observe_way(struct stuck_way *way, bool waits, uint64_t moved, uint64_t enough)
{
	if (waits && way->waits && moved - way->begin < enough)
		way->seconds++;
	else
		*way = (struct stuck_way){.waits = waits, .begin = moved};
}

static void
observe(struct conn *conn)
{
	/* The connection has memory that only its client can make it give back. */
	bool depends = conn->buffers > 0 && !conn->lost;
	bool data = depends && conn->filling, replies = depends && conn->send_op.active;
	uint64_t enough = (uint64_t)conn->worker->config->stuck_limit * STUCK_RATE, in = 0, out = 0;

	if (data || replies)
		read_progress(conn, &in, &out);
	observe_way(&conn->stuck.data, data, in, enough);
	observe_way(&conn->stuck.replies, replies, out, enough);
}

static bool
is_stuck(const struct conn *conn)
{
	unsigned int limit = conn->worker->config->stuck_limit;

	return conn->stuck.replies.seconds >= limit || conn->stuck.data.seconds >= limit;
}

static void
end_stuck(struct conn *conn)
{
	unsigned int limit = conn->worker->config->stuck_limit;
	char reason[128];

	snprintf(reason, sizeof(reason),
		 "%s in %u seconds, less than %u KiB/s, while others wait for memory",
		 conn->stuck.replies.seconds >= limit ? "took too little of its replies"
						      : "sent too little of the data of a write",
		 limit, STUCK_RATE >> 10);
	conn_warn(conn, reason);
	conn_abort(conn);
}

void
stuck_check(struct worker *worker)
{
	bool others_wait = false;

	for (struct conn *conn = worker->conns; conn; conn = conn->next) {
		observe(conn);
		others_wait = others_wait || (conn->stalled && !conn->limit.held &&
					      conn->requests < CONN_REQUESTS && !is_stuck(conn));
	}
	for (struct conn *conn = worker->conns; others_wait && conn; conn = conn->next) {
		if (is_stuck(conn))
			end_stuck(conn);
	}
}
