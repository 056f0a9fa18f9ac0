/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several connections that work at the same time, with a thread each. Check's assertions belong to
 * the main thread, so a member that finds a fault calls crew_fail() and returns.
 */
#ifndef TESTS_NBD_CREW_H
#define TESTS_NBD_CREW_H

#include <libnbd.h>
#include <stdbool.h>
#include <stdint.h>

struct server;
struct crew;

struct crew_member {
	unsigned int index;
	struct nbd_handle *client;
	void *data; /* the job that all share */
	char failure[512];
	struct crew *crew;
};

typedef void (*crew_work)(struct crew_member *member);

/*
 * Connects `count` members, member i to the export names[i % name_count], starts all at the same
 * time, and waits for them. Fails the test with the first member's failure; the message has the
 * `seed`.
 */
void
crew_run(const struct server *server, const char *const *names, unsigned int name_count,
	 unsigned int count, crew_work work, void *data, uint64_t seed);

/* Reports a failure. The others see it in crew_failed(), and may stop early. */
void
crew_fail(struct crew_member *member, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The number of rounds to run here: `rounds`, or one in $LOOP_PART of them on a very slow
 * machine, but at least one. */
unsigned int
crew_rounds(unsigned int rounds);

bool
crew_failed(const struct crew_member *member);

#endif
