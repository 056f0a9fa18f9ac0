/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stalled clients: a client that reads its replies, or sends the data of a write, below a minimum
 * rate keeps their memory. When other connections of its worker have to wait for memory, it is
 * disconnected after some time. While none waits, it may be as slow as it likes: a paused virtual
 * machine keeps its disk.
 */
#ifndef SERVER_CONNECTION_STALL_H
#define SERVER_CONNECTION_STALL_H

struct worker;

/* The minimum rate in bytes per second, an average over worker_config.stuck_limit: even a slow line
 * has more. */
#define STALL_RATE (64U << 10)

/* Checks a worker's connections, and aborts those that are stalled while others wait. To be called
 * once per second while a connection waits for memory. */
void
stall_check(struct worker *worker);

#endif
