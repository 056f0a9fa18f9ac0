/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The program: runs seeds.
 *
 *     simulation --seed N        one run, and the hash of its trace; --loud prints the trace
 *     simulation --seeds A-B     many
 *     simulation --seconds S     as many as the time allows, from --first N on
 */
#include "tests/simulation/chance.h"
#include "tests/simulation/client.h"
#include "tests/simulation/fiber.h"
#include "tests/simulation/process.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/supervisor.h"
#include "tests/simulation/trace.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <time.h>
#include <unistd.h>

struct plan {
	uint64_t first, last;
	double seconds; /* 0: no limit */
	bool loud;
};

static double virtual_seconds;
static bool layers; /* in all runs, not only in each third one */

static double
simulation_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static uint64_t
simulation_run(uint64_t seed, bool loud)
{
	chance_seed(seed);
	trace_begin(seed, loud);
	supervisor_has_layer = layers || seed % 3 == 2;
	scheduler_run(supervisor_run);
	virtual_seconds += (double)scheduler_now() / 1e9;
	return trace_hash();
}

static void
simulation_run_all(const struct plan *plan)
{
	const double start = simulation_clock();
	uint64_t seed = plan->first, hash = 0;
	double seconds;

	while (seed <= plan->last && (!plan->seconds || simulation_clock() < start + plan->seconds))
		hash = simulation_run(seed++, plan->loud);
	seconds = simulation_clock() - start;
	if (plan->first == plan->last) {
		printf("seed %" PRIu64 ": %016" PRIx64 "\n", plan->first, hash);
		return;
	}
	printf("%" PRIu64 " seeds from %" PRIu64 " in %.0f s: %" PRIu64 " kills, %" PRIu64
	       " crashes, %" PRIu64 " ends, %" PRIu64 " answers, %.0f virtual seconds\n",
	       seed - plan->first, plan->first, seconds, supervisor_kills, supervisor_crashes,
	       supervisor_ends, client_answers, virtual_seconds);
}

static void
simulation_parse(struct plan *plan, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (strcmp(argv[i], "--loud") == 0) {
			plan->loud = true;
			continue;
		}
		if (strcmp(argv[i], "--layers") == 0) {
			layers = true;
			continue;
		}
		i++;
		if (strcmp(argv[i - 1], "--seed") == 0) {
			plan->first = plan->last = strtoull(value, NULL, 10);
		} else if (strcmp(argv[i - 1], "--seeds") == 0) {
			if (sscanf(value, "%" SCNu64 "-%" SCNu64, &plan->first, &plan->last) == 2)
				continue;
		} else if (strcmp(argv[i - 1], "--first") == 0) {
			plan->first = strtoull(value, NULL, 10);
		} else if (strcmp(argv[i - 1], "--seconds") == 0) {
			plan->seconds = strtod(value, NULL);
		} else {
			fprintf(stderr,
				"usage: %s [--seed N] [--seeds A-B] [--first N] "
				"[--seconds S] [--layers] [--loud]\n",
				argv[0]);
			exit(2);
		}
	}
}

static void
simulation_report_signal(int number)
{
	trace_fail("the server, or the world, got signal %d", number);
}

/* A fault of the processor is found like any other, on whatever stack. */
static void
simulation_catch_signals(void)
{
	static const int numbers[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV};
	static char stack[65536];
	const stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
	const struct sigaction action = {
		.sa_handler = simulation_report_signal,
		.sa_flags = (int)(SA_ONSTACK | SA_RESETHAND),
	};

	sigaltstack(&other, NULL);
	for (unsigned int i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		sigaction(numbers[i], &action, NULL);
}

int
main(int argc, char **argv)
{
	struct plan plan = {.first = 1, .last = UINT64_MAX};

	/* So that nothing can depend on addresses. */
	if (!(personality(0xffffffff) & ADDR_NO_RANDOMIZE)) {
		personality(ADDR_NO_RANDOMIZE);
		execv("/proc/self/exe", argv);
	}
	simulation_parse(&plan, argc, argv);
	simulation_catch_signals();
	fiber_prepare();
	process_prepare();
	simulation_run_all(&plan);
	fflush(stdout);
	/* No destructor of the product may run. */
	_exit(0);
}
