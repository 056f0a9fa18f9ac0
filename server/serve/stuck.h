/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stuck clients: who takes its replies, or sends the data that it promised to write, more slowly
 * than at a least rate, keeps the memory that they are in.  When others of its worker have to wait
 * for memory, it has to leave after a while.  As long as nobody waits it may take its time: a
 * virtual machine that is paused loses no disk.
 */
#ifndef SERVER_SERVE_STUCK_H
#define SERVER_SERVE_STUCK_H

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct worker;

/* Bytes per second, on the average of the limit (worker_config.stuck_limit): a slow line has more.
 */
#define STUCK_RATE (64U << 10)

/* One direction: the data of one write that comes, or the replies that were sent together. */
struct stuck_way {
	bool waits;           /* there is something to be moved; cleared when that is done */
	uint64_t begin;       /* bytes that had been moved when the time began */
	unsigned int seconds; /* since then, as far as somebody looked; it begins anew when enough
				 was moved */
};

/* What is known of a connection. */
struct stuck {
	struct stuck_way data, replies;
};

/* Looks at a worker's connections, and ends those that are stuck while others wait.  To be called
 * once per second while a connection is stalled; nobody need look at other times. */
void
stuck_check(struct worker *worker);

#endif
