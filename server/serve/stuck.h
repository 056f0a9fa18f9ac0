/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stuck clients: who takes its replies, or sends the data that it promised to write, more slowly
 * than at a least rate, keeps the memory that they are in.  When others of its worker have to wait
 * for memory, it has to leave after a while.  As long as nobody waits it may take its time: a
 * virtual machine that is paused loses no disk.
 */
#ifndef SERVER_SERVE_STUCK_H
#define SERVER_SERVE_STUCK_H

struct worker;

/* Bytes per second, on the average of the limit (worker_config.stuck_limit): a slow line has more.
 */
#define STUCK_RATE (64U << 10)

/* Looks at a worker's connections, and ends those that are stuck while others wait.  To be called
 * once per second while a connection is stalled; nobody need look at other times. */
void
stuck_check(struct worker *worker);

#endif
