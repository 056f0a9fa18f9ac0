/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/scheduler.h"

#include "tests/simulation/chance.h"
#include "tests/simulation/coverage.h"
#include "tests/simulation/trace.h"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A run in which nothing gets done for so long has failed, and one in which so many choices pass
 * without any time. */
#define PATIENCE (60 * SECOND)
#define BUSY     3000000

#define FIBERS   2048
#define TIMES    4096

static struct fiber *fibers, *self;
static unsigned int last_id;
static int64_t now, progress;
static uint64_t choices, choices_at_now;
static int64_t times[TIMES]; /* of things to come, the latest first */
static unsigned int time_count;
static long turn;           /* what is left of the turn, in basic blocks of the product */
static uint64_t own_chance; /* its stream of choices */
static uint64_t stop_at;    /* the number of a turn; 0: none */
static jmp_buf outside;

struct fiber *
scheduler_self(void)
{
	return self;
}

const char *
scheduler_name(void)
{
	return self ? self->name : "";
}

int64_t
scheduler_now(void)
{
	return now;
}

uint64_t
scheduler_choices(void)
{
	return choices;
}

void
scheduler_note_progress(void)
{
	progress = now;
}

void
scheduler_note_time(int64_t time)
{
	unsigned int at = time_count;

	if (time <= now || time == FOR_EVER)
		return;
	if (time_count == TIMES)
		trace_fail("more than %u moments are to come", TIMES);
	while (at > 0 && times[at - 1] < time) {
		times[at] = times[at - 1];
		at--;
	}
	times[at] = time;
	time_count++;
}

static bool
fiber_is_stopped(const struct fiber *fiber)
{
	return fiber->stopped_until > now;
}

static bool
fiber_can_run(struct fiber *fiber)
{
	return !fiber->over && !fiber_is_stopped(fiber) &&
	       (!fiber->waiting || fiber->until <= now ||
		(fiber->ready && fiber->ready(fiber->argument)));
}

/* Nobody can run: an event loop that waits for a lock waits for somebody who sleeps. */
static void
scheduler_check_loops(void)
{
	for (struct fiber *fiber = fibers; fiber; fiber = fiber->next) {
		if (fiber->loop && fiber->waiting && !fiber_is_stopped(fiber) &&
		    strcmp(fiber->waits_for, "events") != 0)
			trace_fail("the event loop %s waits for %s while everybody sleeps",
				   fiber->name, fiber->waits_for);
	}
}

/* The next moment at which something can change, if nobody runs; FOR_EVER: there is none. */
static int64_t
scheduler_next(void)
{
	int64_t next = time_count ? times[time_count - 1] : FOR_EVER;

	for (struct fiber *fiber = fibers; fiber; fiber = fiber->next) {
		if (!fiber->over && fiber->until < next && !fiber_is_stopped(fiber))
			next = fiber->until;
	}
	return next;
}

static void
scheduler_advance(void)
{
	int64_t next;

	scheduler_check_loops();
	next = scheduler_next();
	if (next == FOR_EVER || next - progress > PATIENCE) {
		for (struct fiber *fiber = fibers; fiber; fiber = fiber->next)
			if (!fiber->over)
				trace("%s waits for %s", fiber->name, fiber->waits_for);
		trace_fail(next == FOR_EVER ? "everybody waits for ever"
					    : "nothing has got done for a minute");
	}
	now = next;
	trace_note(now, choices, "");
	choices_at_now = choices;
	while (time_count && times[time_count - 1] <= now)
		time_count--;
}

static struct fiber *
scheduler_choose(void)
{
	struct fiber *can[FIBERS], *thawed[FIBERS], *chosen;
	unsigned int count, warm;

	chance_use(&own_chance);
	for (;;) {
		count = warm = 0;
		for (struct fiber *fiber = fibers; fiber; fiber = fiber->next) {
			if (!fiber_can_run(fiber))
				continue;
			can[count++] = fiber;
			if (fiber->frozen <= choices)
				thawed[warm++] = fiber;
		}
		if (count)
			break;
		scheduler_advance();
	}
	choices++;
	if (choices - choices_at_now > BUSY)
		trace_fail("a busy loop: time does not pass any more");
	chosen = warm ? thawed[chance_below(warm)] : can[chance_below(count)];
	/* Now and then, somebody does not get the processor for a long while. */
	if (warm > 1 && chance_once_in(64))
		chosen->frozen = choices + chance_below(400);
	turn = (long)(chance_once_in(4) ? chance_between(1, 60) : chance_between(1, 4000));
	return chosen;
}

static void
scheduler_let(struct fiber *fiber)
{
	self = fiber;
	trace_note(now, choices, fiber ? fiber->name : "");
	chance_use(fiber ? &fiber->chance : &own_chance);
}

void
scheduler_stop_at(uint64_t number)
{
	stop_at = number;
}

/* On the stack of the fiber whose turn begins. */
static void
scheduler_meet_debugger(void)
{
	if (stop_at && choices == stop_at)
		raise(SIGTRAP);
}

static void
scheduler_go(struct fiber *from)
{
	struct fiber *to = scheduler_choose();

	scheduler_let(to);
	if (to != from) {
		fiber_switch(from, to);
		scheduler_let(from);
	}
	scheduler_meet_debugger();
}

bool
scheduler_wait(const char *what, bool (*ready)(void *argument), void *argument, int64_t until)
{
	struct fiber *fiber = self;

	fiber->waiting = true;
	fiber->waits_for = what;
	fiber->ready = ready;
	fiber->argument = argument;
	fiber->until = until;
	scheduler_go(fiber);
	fiber->waiting = false;
	fiber->until = FOR_EVER;
	return ready && ready(argument);
}

void
scheduler_sleep(int64_t ns)
{
	scheduler_wait("a while to pass", NULL, NULL, now + ns);
}

void
scheduler_sleep_to_next(void)
{
	const int64_t next = scheduler_next();

	if (next > now && next != FOR_EVER)
		scheduler_wait("what comes next", NULL, NULL, next);
}

static bool
scheduler_has_turn(void *data)
{
	(void)data;
	for (struct fiber *fiber = fibers; fiber; fiber = fiber->next) {
		if (fiber->loop && fiber_can_run(fiber))
			return true;
	}
	return false;
}

void
scheduler_sleep_to_turn(int64_t until)
{
	scheduler_wait("an event loop to work", scheduler_has_turn, NULL, until);
}

void
scheduler_yield(void)
{
	scheduler_go(self);
}

/* What gcc calls in each basic block of the product (-fsanitize-coverage=trace-pc). */
void
__sanitizer_cov_trace_pc(void);
void
__sanitizer_cov_trace_pc(void)
{
	coverage_note(__builtin_return_address(0));
	if (--turn <= 0 && self)
		scheduler_go(self);
}

static void
fiber_main(void)
{
	scheduler_meet_debugger();
	scheduler_end(self->run(self->data));
}

struct fiber *
scheduler_start(const char *name, struct process *process, void *(*run)(void *data), void *data)
{
	struct fiber *fiber = fiber_new(fiber_main), **at = &fibers;
	unsigned int count = 0;

	for (; *at; at = &(*at)->next)
		count++;
	if (count >= FIBERS)
		trace_fail("there are %u fibers", count);
	fiber->id = ++last_id;
	fiber->chance = chance_stream(fiber->id);
	fiber->process = process;
	fiber->run = run;
	fiber->data = data;
	fiber->until = FOR_EVER;
	snprintf(fiber->name, sizeof(fiber->name), "%s", name);
	*at = fiber;
	return fiber;
}

void
scheduler_remove(struct fiber *fiber)
{
	struct fiber **at = &fibers;

	while (*at != fiber)
		at = &(*at)->next;
	*at = fiber->next;
	fiber_free(fiber);
}

void
scheduler_end(void *result)
{
	struct fiber *fiber = self;

	fiber->result = result;
	fiber->over = true;
	if (fiber->id == 1) {
		scheduler_let(NULL);
		_longjmp(outside, 1);
	}
	if (fiber->detached)
		scheduler_remove(fiber);
	scheduler_let(NULL);
	scheduler_let(scheduler_choose());
	fiber_switch(NULL, self);
	abort();
}

void
scheduler_visit(void (*visit)(struct fiber *fiber, void *data), void *data)
{
	struct fiber *next;

	for (struct fiber *fiber = fibers; fiber; fiber = next) {
		next = fiber->next;
		visit(fiber, data);
	}
}

struct fiber *
scheduler_find(unsigned int id)
{
	struct fiber *fiber = fibers;

	while (fiber && fiber->id != id)
		fiber = fiber->next;
	return fiber;
}

static void *
scheduler_first(void *data)
{
	void (*first)(void);

	memcpy(&first, &data, sizeof(first));
	first();
	return NULL;
}

void
scheduler_run(void (*first)(void))
{
	void *data;

	memcpy(&data, &first, sizeof(data));
	last_id = time_count = 0;
	now = progress = 0;
	choices = choices_at_now = 0;
	own_chance = chance_stream(0);
	if (!_setjmp(outside)) {
		scheduler_let(scheduler_start("supervisor", NULL, scheduler_first, data));
		fiber_switch(NULL, self);
	}
	while (fibers)
		scheduler_remove(fibers);
}
