/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events: what chance has chosen to happen in the world, and what a run can go without: a fault, a
 * kill, a request of a client. Each has a key, which stays the same while other fibers do other
 * things. A failing run can be repeated without some of its events, which makes it smaller
 * (shrink.c).
 */
#ifndef TESTS_SIMULATION_EVENT_H
#define TESTS_SIMULATION_EVENT_H

#include <stdbool.h>
#include <stdint.h>

struct event {
	uint64_t key; /* its fiber, and its number there */
	int64_t time;
	char words[96];
};

#define EVENTS_MAX (1u << 17)

struct event_list {
	unsigned int count;
	struct event events[EVENTS_MAX];
};

/* An event is about to happen. Returns whether it does; false: it is dropped. */
__attribute__((format(printf, 1, 2))) bool
event_happens(const char *format, ...);

/* The same for what happens once in so many times, if chance chooses so. */
bool
event_strikes(uint64_t once_in, const char *words);

/* From now on, the events with these keys are dropped, which are sorted; those that happen are
 * noted in `list`, unless it is NULL. Both must stay. */
void
event_drop(const uint64_t *keys, unsigned int count, struct event_list *list);

#endif
