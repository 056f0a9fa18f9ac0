/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/event.h"

#include "tests/simulation/chance.h"
#include "tests/simulation/scheduler.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const uint64_t *dropped;
static unsigned int dropped_count;
static struct event_list *noted;

static int
key_compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

bool
event_happens(const char *format, ...)
{
	struct fiber *fiber = scheduler_self();
	const uint64_t key = (uint64_t)fiber->id << 32 | ++fiber->events;
	struct event *event;
	va_list arguments;
	int n;

	if (dropped_count && bsearch(&key, dropped, dropped_count, sizeof(key), key_compare))
		return false;
	if (!noted || noted->count == EVENTS_MAX)
		return true;
	event = &noted->events[noted->count++];
	event->key = key;
	event->time = scheduler_now();
	n = snprintf(event->words, sizeof(event->words), "%-12s ", scheduler_name());
	va_start(arguments, format);
	vsnprintf(event->words + n, sizeof(event->words) - (size_t)n, format, arguments);
	va_end(arguments);
	return true;
}

bool
event_strikes(uint64_t once_in, const char *words)
{
	return chance_once_in(once_in) && event_happens("%s", words);
}

void
event_drop(const uint64_t *keys, unsigned int count, struct event_list *list)
{
	dropped = keys;
	dropped_count = count;
	noted = list;
}
