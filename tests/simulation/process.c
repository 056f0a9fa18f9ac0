/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/process.h"

#include "tests/simulation/call.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

/* The linker's names for the product's static variables (simulation.mk). */
extern char __start_product_data[], __stop_product_data[];
extern char __start_product_bss[], __stop_product_bss[];

extern void (*__start_product_ends[])(void), (*__stop_product_ends[])(void);

static char *data_at_start, *bss_at_start;
static unsigned int lives;

struct start {
	int (*entry)(int argc, char **argv);
	int argc;
	char **argv;
};

static struct start start;

void
process_prepare(void)
{
	const size_t data = (size_t)(__stop_product_data - __start_product_data);
	const size_t bss = (size_t)(__stop_product_bss - __start_product_bss);

	data_at_start = malloc(data);
	bss_at_start = malloc(bss);
	memcpy(data_at_start, __start_product_data, data);
	memcpy(bss_at_start, __start_product_bss, bss);
}

struct process *
process_self(void)
{
	return scheduler_self() ? scheduler_self()->process : NULL;
}

static void
process_stop_fiber(struct fiber *fiber, void *data)
{
	struct process *process = data;

	if (fiber->process != process || fiber == scheduler_self())
		return;
	if (fiber->in_kernel)
		fiber->dying = true;
	else
		scheduler_remove(fiber);
}

static void
process_end(struct process *process, int status, bool well)
{
	process->ended = true;
	process->well = well;
	process->status = status;
	trace("the server ends with status %d", status);
	scheduler_visit(process_stop_fiber, process);
	scheduler_self()->detached = true;
	scheduler_end(NULL);
}

static void *
process_main(void *data)
{
	struct process *process = data;
	int status;

	optind = 0;
	status = start.entry(start.argc, start.argv);
	for (void (**end)(void) = __start_product_ends; end < __stop_product_ends; end++)
		(*end)();
	process_end(process, status, true);
	return NULL;
}

struct process *
process_start(int (*entry)(int argc, char **argv), int argc, char **argv)
{
	struct process *process = calloc(1, sizeof(*process));

	memcpy(__start_product_data, data_at_start,
	       (size_t)(__stop_product_data - __start_product_data));
	memcpy(__start_product_bss, bss_at_start,
	       (size_t)(__stop_product_bss - __start_product_bss));
	start = (struct start){entry, argc, argv};
	process->number = ++lives;
	process->main = scheduler_start("main", process, process_main, process);
	return process;
}

void
process_kill(struct process *process)
{
	process->killed = true;
	scheduler_visit(process_stop_fiber, process);
}

static void
process_stop_outside(struct fiber *fiber, void *data)
{
	const struct process *process = data;

	if (fiber->process == process && !fiber->in_kernel)
		fiber->stopped_until = process->stopped_until;
}

void
process_stop(struct process *process, int64_t until)
{
	process->stopped_until = until;
	scheduler_note_time(until);
	scheduler_visit(process_stop_outside, process);
}

static void
process_drop_fiber(struct fiber *fiber, void *data)
{
	if (fiber->process == data)
		scheduler_remove(fiber);
}

void
process_lose_power(struct process *process)
{
	process->killed = true;
	process->in_kernel = 0;
	scheduler_visit(process_drop_fiber, process);
}

static void
process_count_fiber(struct fiber *fiber, void *data)
{
	void **both = data;

	if (fiber->process == both[0])
		*(unsigned int *)both[1] += 1;
}

bool
process_is_over(const struct process *process)
{
	unsigned int count = 0;
	const void *both[] = {process, &count};

	if (!process->killed && !process->ended)
		return false;
	scheduler_visit(process_count_fiber, both);
	return count == 0;
}

unsigned int
process_latest(void)
{
	return lives;
}

static void
process_find_writer(struct fiber *fiber, void *data)
{
	unsigned int *oldest = data;

	if (fiber->dying && fiber->process->number < *oldest && strcmp(fiber->call, "pwrite") == 0)
		*oldest = fiber->process->number;
}

bool
process_haunts(unsigned int number)
{
	unsigned int oldest = number;

	scheduler_visit(process_find_writer, &oldest);
	return oldest < number;
}

void
kernel_enter(const char *what)
{
	struct fiber *fiber = scheduler_self();

	if (fiber->loop)
		trace_fail("the event loop %s makes a call that can wait: %s", fiber->name, what);
	fiber->in_kernel = true;
	fiber->call = what;
}

void
kernel_leave(void)
{
	struct fiber *fiber = scheduler_self();

	fiber->in_kernel = false;
	if (!fiber->dying) {
		fiber->stopped_until = fiber->process->stopped_until;
		if (fiber->stopped_until > scheduler_now())
			scheduler_yield();
		return;
	}
	trace("the last call of a killed thread has ended");
	fiber->detached = true;
	scheduler_end(NULL);
}

CALL(_Noreturn void, _exit, int status)
{
	process_end(process_self(), status, false);
	abort();
}

CALL(_Noreturn void, abort, void)
{
	trace_fail("the server called abort()");
}

CALL(_Noreturn void, __assert_fail, const char *what, const char *file, unsigned int line,
     const char *function)
{
	trace_fail("an assertion failed: %s:%u: %s: %s", file, line, function, what);
}
