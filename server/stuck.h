/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stuck clients: who takes none of its replies, or doesn't send the data that it promised to write, keeps the memory
 * that they are in.  When others of its worker have to wait for memory, it has to leave after a while.  As long as nobody
 * waits it may take its time: a virtual machine that is paused loses no disk.
 */
#ifndef SERVER_STUCK_H
#define SERVER_STUCK_H

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct worker;

/* What is known of a connection. */
struct stuck {
	bool sending;         /* the direction: replies, or else the data of a write */
	uint64_t moved;       /* grew when something was moved in it: bytes over TCP, else completions */
	unsigned int seconds; /* so long it has not, as far as somebody looked */
};

/* Looks at a worker's connections, and ends those that are stuck while others wait.  To be called once per second
 * while a connection is stalled; nobody need look at other times. */
void
stuck_check(struct worker *worker);

#endif
