/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stuck clients: a client that takes its replies, or sends the data of a write, more slowly than at
 * a least rate, keeps the memory that they are in.  When others of its worker have to wait for
 * memory, it is disconnected after a while.  As long as none waits, it may take its time: a virtual
 * machine that is paused loses no disk.
 */
#ifndef SERVER_SERVE_STUCK_H
#define SERVER_SERVE_STUCK_H

struct worker;

/* Bytes per second, on the average of the limit (worker_config.stuck_limit): a slow line has more.
 */
#define STUCK_RATE (64U << 10)

/* Looks at a worker's connections, and ends those that are stuck while others wait.  To be called
 * once per second while a connection is stalled; at other times there is no need. */
void
stuck_check(struct worker *worker);

#endif
