/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients that have not chosen an export yet, and so have not shown that they may use one. They
 * cost an attacker nothing, so they have places of their own, and never take the last ones of the
 * server: where these are full and another client waits, the oldest one goes of the address that
 * has most of them. Each has a moment for its handshake before that, which a client that comes back
 * at once can't take from another one: it waits behind it, in the listener's queue.
 *
 * The main thread adds them and makes room; a client leaves on its worker's thread.
 */
#ifndef SERVER_ACCESS_NEWCOMERS_H
#define SERVER_ACCESS_NEWCOMERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Milliseconds that a newcomer has in any case. */
#define NEWCOMER_GRACE 1000

struct newcomers {
	pthread_mutex_t mutex; /* guards the following, and their sockets; held only for moments */
	struct newcomer *first, **last; /* the oldest one first */
	unsigned int count;
	bool awaited; /* a client waits for the next one to leave */
	int wake;     /* an eventfd that gets 1 then; the owner's */
};

/* One of them; all zero: none. */
struct newcomer {
	struct newcomers *all; /* NULL: it has left, or never was one */
	struct newcomer *next, **link;
	int fd;               /* its socket; open until it has left */
	int64_t since;        /* CLOCK_MONOTONIC, ms */
	unsigned int address; /* a number of its address: others may have the same */
};

void
newcomers_init(struct newcomers *newcomers, int wake);

/* `address`: a number that clients of one address share: identity_place(). */
void
newcomer_join(struct newcomers *newcomers, struct newcomer *newcomer, int fd, uint32_t address);

/* It has chosen an export, or is about to close its socket. May be called again. */
void
newcomer_leave(struct newcomer *newcomer);

/* Returns whether there are `places` of them. */
bool
newcomers_are_full(struct newcomers *newcomers, unsigned int places);

/* Ends one, if there are `places`, for another client that waits. Returns 0: there is room; or for
 * how long there will be none, in milliseconds, unless one leaves, which .wake tells. */
int
newcomers_make_room(struct newcomers *newcomers, unsigned int places);

#endif
