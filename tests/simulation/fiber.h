/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fiber: a stack of its own, and the state of a thread that the C library and the compiler would
 * keep: errno and thread-local variables. Exactly one fiber runs at a time. Who runs is the
 * scheduler's choice.
 */
#ifndef TESTS_SIMULATION_FIBER_H
#define TESTS_SIMULATION_FIBER_H

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>

#define FIBER_KEYS  4
#define FIBER_LOCAL 128

struct process;

struct fiber {
	unsigned int id;
	uint64_t chance;     /* its stream of choices */
	unsigned int events; /* see event.h */
	char name[16];
	struct process *process; /* NULL: the world's own */
	/* What the scheduler knows of it; see scheduler.h. */
	bool over, waiting;
	int64_t stopped_until; /* it does not run before */
	bool (*ready)(void *argument);
	void *argument;
	const char *waits_for;
	int64_t until;   /* nanoseconds; INT64_MAX: for ever */
	uint64_t frozen; /* not chosen before this many choices, unless nobody else can run */
	/* What calls know of it. */
	bool loop;        /* an event loop, which may not wait for anything but events */
	bool in_kernel;   /* in a call that a kill does not end */
	const char *call; /* that one, or the last one */
	bool dying;       /* it ends when that call ends */
	bool detached;
	const void *condition; /* on which it waits */
	bool signalled;
	void *specific[FIBER_KEYS];
	void *(*run)(void *data);
	void *data, *result;
	/* What is exchanged at a switch. */
	jmp_buf context;
	bool begun;
	char *stack;
	int error;
	char local[FIBER_LOCAL];
	struct fiber *next;
};

/* Must be called once, before any other. */
void
fiber_prepare(void);

/* Makes a fiber that will call `run`, which must not return. */
struct fiber *
fiber_new(void (*run)(void));

/* Leaves `from` (NULL: for good) and goes on with `to`. Returns when somebody goes on with `from`.
 */
void
fiber_switch(struct fiber *from, struct fiber *to);

/* Its stack may be the one in use, if a switch for good follows. */
void
fiber_free(struct fiber *fiber);

#endif
