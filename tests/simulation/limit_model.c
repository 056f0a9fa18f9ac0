/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/limit_model.h"

#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The last operations, which is as far as windows go back. */
#define OPERATIONS 256

/* So many connections may have got something before a window begins, and use it then. */
#define CONNECTIONS 4

enum scope {
	ALL_CLIENTS,
	EACH_CLIENT,
	SCOPES,
};

enum kind {
	IOPS,
	BANDWIDTH,
	KINDS,
};

/* `portion`: the smallest that a connection gets. */
static const struct {
	const char *names[SCOPES], *unit;
	uint64_t portion;
} kinds[KINDS] = {
	[IOPS] = {{" iops-limit=", " client-iops-limit="}, "operations", 1},
	[BANDWIDTH] = {{" bandwidth-limit=", " client-bandwidth-limit="}, "bytes", 4096},
};

struct operation {
	int64_t sent_at;
	uint64_t units;
};

struct limit {
	uint64_t rate; /* per second; 0: there is none, or nobody knows */
	int64_t since;
	struct operation operations[OPERATIONS]; /* by the time when they were sent */
	unsigned int count;
};

static bool limits_last;
static uint64_t largest_request; /* bytes */
static struct limit limits[SCOPES][KINDS][LIMIT_MODEL_CLIENTS + 1];

static void
limit_set(enum scope scope, enum kind kind, uint64_t rate)
{
	for (unsigned int i = 0; i <= LIMIT_MODEL_CLIENTS; i++) {
		struct limit *limit = &limits[scope][kind][i];

		limit->rate = limits_last ? rate : 0;
		limit->since = scheduler_now();
		limit->count = 0;
	}
}

void
limit_model_plan(uint64_t largest)
{
	largest_request = largest;
}

void
limit_model_begin(bool lasting)
{
	limits_last = lasting;
	for (unsigned int i = 0; i < SCOPES * KINDS; i++)
		limit_set(i / KINDS, i % KINDS, 0);
}

static void
limit_model_read(const char *request, bool confirmed)
{
	for (unsigned int i = 0; i < SCOPES * KINDS; i++) {
		const char *name = kinds[i % KINDS].names[i / KINDS], *at = strstr(request, name);
		uint64_t rate;
		char unit = 0;

		if (!at || sscanf(at + strlen(name), "%" SCNu64 "%c", &rate, &unit) < 1)
			continue;
		rate *= unit == 'k' ? 1024 : unit == 'M' ? 1024 * 1024 : 1;
		limit_set(i / KINDS, i % KINDS, confirmed ? rate : 0);
	}
}

void
limit_model_asked(const char *request)
{
	limit_model_read(request, false);
}

void
limit_model_confirmed(const char *request)
{
	limit_model_read(request, true);
}

/* What a window may have more than the rate allows for its time: a burst, and what connections have
 * got before. One may have the rest of a portion, and all but a unit of what a request costs; and
 * its next portions may be there. */
static double
limit_slack(const struct limit *limit, enum kind kind)
{
	const uint64_t part = limit->rate / 250,
		       portion = part > kinds[kind].portion ? part : kinds[kind].portion,
		       burst = limit->rate / 10 > portion ? limit->rate / 10 : portion,
		       largest = kind == IOPS ? 1 : largest_request;

	return (double)(burst + CONNECTIONS * (2 * (portion + largest) - 3));
}

static void
limit_add(struct limit *limit, int64_t sent_at, uint64_t units)
{
	unsigned int at;

	if (limit->count == OPERATIONS)
		memmove(limit->operations, limit->operations + 1,
			--limit->count * sizeof(limit->operations[0]));
	at = limit->count++;
	for (; at > 0 && limit->operations[at - 1].sent_at > sent_at; at--)
		limit->operations[at] = limit->operations[at - 1];
	limit->operations[at] = (struct operation){sent_at, units};
}

/* All operations of a window have been answered by now. */
static void
limit_check(const struct limit *limit, enum kind kind, const char *who)
{
	const double slack = limit_slack(limit, kind);
	uint64_t units = 0;

	for (unsigned int i = limit->count; i-- > 0;) {
		const double seconds =
			(double)(scheduler_now() - limit->operations[i].sent_at) / SECOND;

		units += limit->operations[i].units;
		if ((double)units > slack + (double)limit->rate * seconds)
			trace_fail("%" PRIu64 " %s in %.3f seconds%s, but the limit is %" PRIu64
				   " per second",
				   units, kinds[kind].unit, seconds, who, limit->rate);
	}
}

void
limit_model_answered(unsigned int client, uint64_t bytes, int64_t sent_at)
{
	for (unsigned int i = 0; i < SCOPES * KINDS; i++) {
		const enum scope scope = i / KINDS;
		const enum kind kind = i % KINDS;
		struct limit *limit = &limits[scope][kind][scope == EACH_CLIENT ? client : 0];

		/* Time does not tell what came first within a moment. */
		if (!limit->rate || sent_at <= limit->since)
			continue;
		limit_add(limit, sent_at, kind == IOPS ? 1 : bytes);
		limit_check(limit, kind, scope == EACH_CLIENT ? " by one client" : "");
	}
}
