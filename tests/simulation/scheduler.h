/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The scheduler and the clock. A fiber runs until it waits, or until its turn is over; then chance
 * chooses among the fibers that can run. A waiting fiber can run when its condition is true, which
 * the scheduler asks each time: no wake-up can be lost in the simulation itself.
 *
 * Time passes only when no fiber can run: then the clock moves to the next moment at which
 * something can change. So a run in which everybody waits for everybody is found at once, and one
 * in which nothing gets done for a minute is found after that minute, which takes no real time.
 */
#ifndef TESTS_SIMULATION_SCHEDULER_H
#define TESTS_SIMULATION_SCHEDULER_H

#include "tests/simulation/fiber.h"

#include <stdbool.h>
#include <stdint.h>

#define FOR_EVER    INT64_MAX
#define MICROSECOND INT64_C(1000)
#define MILLISECOND INT64_C(1000000)
#define SECOND      INT64_C(1000000000)

/* Runs `first` as the first fiber; returns when that fiber has returned. */
void
scheduler_run(void (*first)(void));

struct fiber *
scheduler_start(const char *name, struct process *process, void *(*run)(void *data), void *data);

/* At the beginning of that turn of a run, a debugger stops the program (SIGTRAP); 0: of none. */
void
scheduler_stop_at(uint64_t turn);

/* NULL outside of a run. */
struct fiber *
scheduler_self(void);

/* The name of the running fiber, or "". */
const char *
scheduler_name(void);

/* Nanoseconds since the run's start. */
int64_t
scheduler_now(void);

/* Something that clients or the supervisor wanted is done. */
void
scheduler_note_progress(void);

/* At this time, a condition may become true without anybody running. */
void
scheduler_note_time(int64_t time);

/* Waits until ready(argument), or until the clock is at `until`. Returns whether it was ready. */
bool
scheduler_wait(const char *what, bool (*ready)(void *argument), void *argument, int64_t until);

void
scheduler_sleep(int64_t ns);

/* Sleeps until the next moment at which something can change. */
void
scheduler_sleep_to_next(void);

/* Sleeps until an event loop of the server works, or until that time. */
void
scheduler_sleep_to_turn(int64_t until);

/* Perhaps lets others run. */
void
scheduler_yield(void);

/* Ends the running fiber. */
_Noreturn void
scheduler_end(void *result);

/* Calls `visit` for each fiber that is not over; it may remove that one. */
void
scheduler_visit(void (*visit)(struct fiber *fiber, void *data), void *data);

/* Forgets a fiber that is not the running one. */
void
scheduler_remove(struct fiber *fiber);

/* Returns the fiber, also if it is over, or NULL. */
struct fiber *
scheduler_find(unsigned int id);

/* How often a fiber was chosen. */
uint64_t
scheduler_choices(void);

#endif
