/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker with its thread, and one export, "disk", whose image is reached through the fake
 * backend.  A test is the client (nbd_client.h) and the disk: it holds chunks, and looks at what
 * arrives at either end.
 */
#ifndef TESTS_UNIT_SERVER_ONE_WORKER_H
#define TESTS_UNIT_SERVER_ONE_WORKER_H

#include "server/connection/offer.h"
#include "server/request/traffic.h"
#include "server/worker/worker.h"
#include "tests/unit/fake_image.h"

#include <stdbool.h>

/* How the worker waits: a test runs with _i = 0 ... worker_ways() - 1. */
enum worker_way {
	WAY_EPOLL,
	WAY_RING,
};

/* Says why not all of them, as the suite's skipped tests do. */
int
worker_ways(void);

extern struct fake_image disk;
extern struct worker the_worker;
extern struct worker_config the_config; /* a test may change it before worker_begin() */

/* For a checked fixture. */
void
worker_prepare(void);

/* Opens the disk, and starts the worker. */
void
worker_begin(int way, const struct fake_facts *facts);

/* Ends the worker as soon as it has no connection, and checks that nothing is left over, that the
 * disk holds what its model does, and that each connection was told to have ended. */
void
worker_finish(void);

/* Gives the worker a socket. */
void
worker_take(int fd);

/* Wait until so many connections have ended, or until so many requests are under way. */
void
worker_await_closed(unsigned int count);
void
worker_await_requests(unsigned int count);

/* Waits until the worker has done all that it was told before. */
void
worker_catch_up(void);

/* Requests that are under way. */
unsigned int
worker_requests(void);

/* What the worker has answered. */
void
worker_traffic(struct traffic_sum *sum);

#endif
