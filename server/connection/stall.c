/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/stall.h"

#include "server/connection/conn.h"

#include <netinet/in.h>
#include <linux/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>

/* Over TCP, which may be slow, the kernel tells the progress within a transfer; elsewhere it may be
 * known only when all of it is done. */
static void
stall_read_progress(const struct conn *conn, uint64_t *in, uint64_t *out)
{
	struct tcp_info info;
	socklen_t length = sizeof(info);

	*in = conn->transport.bytes_in;
	*out = conn->transport.bytes_out;
	if (getsockopt(conn->transport.fd, IPPROTO_TCP, TCP_INFO, &info, &length) < 0 ||
	    length < offsetof(struct tcp_info, tcpi_segs_out))
		return;
	*in = info.tcpi_bytes_received;
	*out = info.tcpi_bytes_acked;
}

/* Bytes in the other direction are no progress, nor are only a few. */
static void
stall_observe_way(struct conn_progress *way, bool waits, uint64_t moved, uint64_t enough)
{
	if (waits && way->waits && moved - way->begin < enough)
		way->seconds++;
	else
		*way = (struct conn_progress){.waits = waits, .begin = moved};
}

static void
stall_observe(struct conn *conn)
{
	/* The connection has memory that only its client can make it give back. */
	bool depends = conn->queue.buffers > 0 && !conn_is_lost(conn);
	bool data = depends && conn->intake.filling,
	     replies = depends && transport_sends(&conn->transport);
	uint64_t enough = (uint64_t)conn->worker->config->stuck_limit * STALL_RATE, in = 0, out = 0;

	if (data || replies)
		stall_read_progress(conn, &in, &out);
	stall_observe_way(&conn->data, data, in, enough);
	stall_observe_way(&conn->replies, replies, out, enough);
}

static bool
stall_is_reached(const struct conn *conn)
{
	unsigned int limit = conn->worker->config->stuck_limit;

	return conn->replies.seconds >= limit || conn->data.seconds >= limit;
}

static void
stall_end(struct conn *conn)
{
	unsigned int limit = conn->worker->config->stuck_limit;
	char reason[128];

	snprintf(reason, sizeof(reason),
		 "%s in %u seconds, less than %u KiB/s, while others wait for memory",
		 conn->replies.seconds >= limit ? "took too little of its replies"
						: "sent too little of the data of a write",
		 limit, STALL_RATE >> 10);
	conn_warn(conn, reason);
	conn_abort(conn);
}

void
stall_check(struct worker *worker)
{
	bool others_wait = false;

	for (struct conn *conn = worker->conns; conn; conn = conn->next) {
		stall_observe(conn);
		others_wait = others_wait ||
			      (conn->paused && !conn->throttle.throttled &&
			       conn->queue.in_flight < CONN_REQUESTS && !stall_is_reached(conn));
	}
	for (struct conn *conn = worker->conns; others_wait && conn; conn = conn->next) {
		if (stall_is_reached(conn))
			stall_end(conn);
	}
}
