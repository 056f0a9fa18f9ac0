/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/shrink.h"

#include "tests/simulation/event.h"
#include "tests/simulation/trace.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What a run in a child process leaves. */
struct report {
	struct trace_verdict verdict;
	struct event_list list;
};

static struct report *report; /* of the last run; shared with it */
static struct report *best;   /* of the smallest run that fails */
static uint64_t *keys;        /* of what that goes without, sorted */
static unsigned int key_count;
static uint64_t seed_of_run;
static void (*run_once)(uint64_t seed);

static int
key_compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Runs without these events. Returns whether the run fails. */
static bool
shrink_try(const uint64_t *without, unsigned int count)
{
	pid_t child;

	memset(&report->verdict, 0, sizeof(report->verdict));
	report->list.count = 0;
	fflush(stdout);
	child = fork();
	if (child == 0) {
		trace_tell(&report->verdict);
		event_drop(without, count, &report->list);
		run_once(seed_of_run);
		_exit(0);
	}
	waitpid(child, NULL, 0);
	return report->verdict.failed;
}

static void
shrink_keep(const uint64_t *without, unsigned int count)
{
	memcpy(&best->verdict, &report->verdict, sizeof(best->verdict));
	best->list.count = report->list.count;
	memcpy(best->list.events, report->list.events,
	       report->list.count * sizeof(report->list.events[0]));
	memcpy(keys, without, count * sizeof(*without));
	key_count = count;
}

/* Tries to go without `count` further events of the smallest run, from `first` on. */
static bool
shrink_drop(unsigned int first, unsigned int count)
{
	uint64_t *without = malloc((key_count + count) * sizeof(*without));
	bool fails;

	memcpy(without, keys, key_count * sizeof(*keys));
	for (unsigned int i = 0; i < count; i++)
		without[key_count + i] = best->list.events[first + i].key;
	qsort(without, key_count + count, sizeof(*without), key_compare);
	fails = key_count + count < EVENTS_MAX && shrink_try(without, key_count + count) &&
		report->verdict.format == best->verdict.format &&
		report->list.count < best->list.count;
	if (fails)
		shrink_keep(without, key_count + count);
	free(without);
	return fails;
}

static double
shrink_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* From the end, since what happens late depends on what happens early. A smaller run may need
 * fewer events of those that were tried, so there are further rounds. */
static void
shrink_all(double seconds)
{
	const double end = shrink_clock() + seconds;
	unsigned int part = best->list.count / 2, before;

	while (part > 0 && shrink_clock() < end) {
		before = best->list.count;
		for (unsigned int at = best->list.count; at > 0 && shrink_clock() < end;) {
			const unsigned int first = at > part ? at - part : 0;

			if (shrink_drop(first, at - first) && first > best->list.count)
				at = best->list.count;
			else
				at = first;
		}
		fprintf(stderr, "%u events, tried %u at once\n", best->list.count, part);
		if (part > 1 || best->list.count == before)
			part /= 2;
	}
}

void
shrink_run(uint64_t seed, double seconds, void (*run)(uint64_t seed))
{
	report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	best = calloc(1, sizeof(*best));
	keys = calloc(EVENTS_MAX, sizeof(*keys));
	seed_of_run = seed;
	run_once = run;
	if (!shrink_try(keys, 0)) {
		printf("seed %" PRIu64 " does not fail\n", seed);
		exit(0);
	}
	shrink_keep(keys, 0);
	shrink_all(seconds > 0 ? seconds : 120);
	event_drop(keys, key_count, NULL);
	printf("seed %" PRIu64 " fails with %u events:\n", seed, best->list.count);
	for (unsigned int i = 0; i < best->list.count; i++)
		printf("%4" PRId64 ".%06" PRId64 " %s\n", best->list.events[i].time / 1000000000,
		       best->list.events[i].time / 1000 % 1000000, best->list.events[i].words);
	printf("the end of that run:\n");
	fflush(stdout);
	run(seed);
	exit(1);
}
