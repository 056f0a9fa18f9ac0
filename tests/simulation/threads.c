/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads, locks and conditions: fibers, and their state in the memory that the product has for
 * the C library's. A lock is free when its memory is zero, as PTHREAD_MUTEX_INITIALIZER makes it.
 */
#include "tests/simulation/call.h"
#include "tests/simulation/chance.h"
#include "tests/simulation/event.h"
#include "tests/simulation/process.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

struct lock {
	unsigned int owner; /* a fiber's number; 0: nobody */
};

struct condition {
	clockid_t clock;
};

/* ---- values of threads */

static void (*key_ends[FIBER_KEYS])(void *value);
static unsigned int key_count;

CALL(int, pthread_key_create, pthread_key_t *key, void (*end)(void *value))
{
	if (key_count == FIBER_KEYS)
		return EAGAIN;
	key_ends[key_count] = end;
	*key = key_count++;
	return 0;
}

/* The key of a destructor; the constructor that made it does not run again for the next life. */
CALL(int, pthread_key_delete, pthread_key_t key)
{
	(void)key;
	return 0;
}

CALL(int, pthread_setspecific, pthread_key_t key, const void *value)
{
	memcpy(&scheduler_self()->specific[key], &value, sizeof(value));
	return 0;
}

/* ---- threads */

struct thread_start {
	void *(*run)(void *data);
	void *data;
};

static void *
thread_main(void *data)
{
	struct thread_start start = *(struct thread_start *)data;
	void *result;

	free(data);
	result = start.run(start.data);
	for (unsigned int i = 0; i < FIBER_KEYS; i++) {
		void *value = scheduler_self()->specific[i];

		if (value && key_ends[i])
			key_ends[i](value);
	}
	return result;
}

CALL(int, pthread_create, pthread_t *thread, const pthread_attr_t *attributes,
     void *(*run)(void *data), void *data)
{
	struct thread_start *start;
	struct fiber *fiber;

	(void)attributes;
	start = malloc(sizeof(*start));
	*start = (struct thread_start){run, data};
	fiber = scheduler_start("thread", process_self(), thread_main, start);
	*thread = fiber->id;
	return 0;
}

static bool
thread_is_over(void *data)
{
	const struct fiber *fiber = data;

	return fiber->over;
}

CALL(int, pthread_join, pthread_t thread, void **result)
{
	struct fiber *fiber = scheduler_find((unsigned int)thread);

	if (!fiber || fiber->process != process_self())
		trace_fail("a thread is joined that is not there");
	scheduler_wait("a thread's end", thread_is_over, fiber, FOR_EVER);
	if (result)
		*result = fiber->result;
	scheduler_remove(fiber);
	return 0;
}

CALL(int, pthread_tryjoin_np, pthread_t thread, void **result)
{
	struct fiber *fiber = scheduler_find((unsigned int)thread);

	return fiber && !fiber->over ? EBUSY : world_pthread_join(thread, result);
}

CALL(pthread_t, pthread_self, void)
{
	return scheduler_self()->id;
}

CALL(int, pthread_setname_np, pthread_t thread, const char *name)
{
	struct fiber *fiber = scheduler_find((unsigned int)thread);

	snprintf(fiber->name, sizeof(fiber->name), "%s", name);
	return 0;
}

/* The name that thread_confine() gives says that a thread is an event loop. */
CALL(int, prctl, int what, unsigned long value, unsigned long a, unsigned long b, unsigned long c)
{
	struct fiber *fiber = scheduler_self();

	(void)a;
	(void)b;
	(void)c;
	if (what != PR_SET_NAME) {
		errno = EINVAL;
		return -1;
	}
	snprintf(fiber->name, sizeof(fiber->name), "%s-%u", (const char *)value, fiber->id);
	fiber->loop = strcmp((const char *)value, "loop") == 0;
	return 0;
}

CALL(int, pthread_attr_init, pthread_attr_t *attributes)
{
	(void)attributes;
	return 0;
}

CALL(int, pthread_attr_destroy, pthread_attr_t *attributes)
{
	(void)attributes;
	return 0;
}

CALL(int, pthread_attr_setstacksize, pthread_attr_t *attributes, size_t size)
{
	(void)attributes;
	(void)size;
	return 0;
}

CALL(int, pthread_sigmask, int how, const sigset_t *set, sigset_t *before)
{
	(void)how;
	(void)set;
	if (before)
		sigemptyset(before);
	return 0;
}

CALL(int, sigprocmask, int how, const sigset_t *set, sigset_t *before)
{
	return world_pthread_sigmask(how, set, before);
}

CALL(int, sched_yield, void)
{
	scheduler_yield();
	return 0;
}

/* ---- locks */

CALL(int, pthread_mutex_init, pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
	(void)attributes;
	memset(mutex, 0, sizeof(*mutex));
	return 0;
}

static bool
lock_is_free(void *data)
{
	const struct lock *lock = data;

	return lock->owner == 0;
}

CALL(int, pthread_mutex_lock, pthread_mutex_t *mutex)
{
	struct lock *lock = (struct lock *)mutex;

	if (lock->owner == scheduler_self()->id)
		trace_fail("%s locks a mutex that it has", scheduler_name());
	if (chance_once_in(8))
		scheduler_yield();
	while (lock->owner)
		scheduler_wait("a lock", lock_is_free, lock, FOR_EVER);
	lock->owner = scheduler_self()->id;
	return 0;
}

CALL(int, pthread_mutex_trylock, pthread_mutex_t *mutex)
{
	struct lock *lock = (struct lock *)mutex;

	if (lock->owner)
		return EBUSY;
	lock->owner = scheduler_self()->id;
	return 0;
}

CALL(int, pthread_mutex_unlock, pthread_mutex_t *mutex)
{
	struct lock *lock = (struct lock *)mutex;

	if (lock->owner != scheduler_self()->id)
		trace_fail("%s unlocks a mutex of another thread", scheduler_name());
	lock->owner = 0;
	if (chance_once_in(8))
		scheduler_yield();
	return 0;
}

CALL(int, pthread_mutex_destroy, pthread_mutex_t *mutex)
{
	const struct lock *lock = (const struct lock *)mutex;

	if (lock->owner)
		trace_fail("a mutex is destroyed that is locked");
	return 0;
}

/* ---- conditions */

CALL(int, pthread_condattr_init, pthread_condattr_t *attributes)
{
	memset(attributes, 0, sizeof(*attributes));
	return 0;
}

CALL(int, pthread_condattr_setclock, pthread_condattr_t *attributes, clockid_t clock)
{
	memcpy(attributes, &clock, sizeof(*attributes));
	return 0;
}

CALL(int, pthread_condattr_destroy, pthread_condattr_t *attributes)
{
	(void)attributes;
	return 0;
}

CALL(int, pthread_cond_init, pthread_cond_t *condition, const pthread_condattr_t *attributes)
{
	memset(condition, 0, sizeof(*condition));
	if (attributes)
		memcpy(condition, attributes, sizeof(*attributes));
	return 0;
}

static bool
condition_is_signalled(void *data)
{
	const struct fiber *fiber = data;

	return fiber->signalled;
}

static int
condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, int64_t until)
{
	struct fiber *fiber = scheduler_self();
	bool came;

	fiber->condition = condition;
	fiber->signalled = false;
	((struct lock *)mutex)->owner = 0;
	/* A wait may end without a signal. */
	if (event_strikes(200, "a wait without a signal"))
		scheduler_yield();
	else
		scheduler_wait("a condition", condition_is_signalled, fiber, until);
	came = fiber->signalled || scheduler_now() < until;
	fiber->condition = NULL;
	world_pthread_mutex_lock(mutex);
	return came ? 0 : ETIMEDOUT;
}

CALL(int, pthread_cond_wait, pthread_cond_t *condition, pthread_mutex_t *mutex)
{
	return condition_wait(condition, mutex, FOR_EVER);
}

/* Only the monotonic clock is used so (common/thread.c). */
CALL(int, pthread_cond_timedwait, pthread_cond_t *condition, pthread_mutex_t *mutex,
     const struct timespec *until)
{
	const struct condition *own = (const struct condition *)condition;

	if (own->clock != CLOCK_MONOTONIC)
		trace_fail("a condition does not use the monotonic clock");
	return condition_wait(condition, mutex, until->tv_sec * SECOND + until->tv_nsec);
}

struct signal {
	const void *condition;
	struct fiber *waiting[64];
	unsigned int count;
};

static void
signal_find(struct fiber *fiber, void *data)
{
	struct signal *signal = data;

	if (fiber->condition == signal->condition && !fiber->signalled && !fiber->over &&
	    signal->count < 64)
		signal->waiting[signal->count++] = fiber;
}

CALL(int, pthread_cond_signal, pthread_cond_t *condition)
{
	struct signal signal = {.condition = condition};

	scheduler_visit(signal_find, &signal);
	if (signal.count)
		signal.waiting[chance_below(signal.count)]->signalled = true;
	return 0;
}

CALL(int, pthread_cond_broadcast, pthread_cond_t *condition)
{
	struct signal signal = {.condition = condition};

	scheduler_visit(signal_find, &signal);
	for (unsigned int i = 0; i < signal.count; i++)
		signal.waiting[i]->signalled = true;
	return 0;
}

CALL(int, pthread_cond_destroy, pthread_cond_t *condition)
{
	struct signal signal = {.condition = condition};

	scheduler_visit(signal_find, &signal);
	if (signal.count)
		trace_fail("a condition is destroyed on which %s waits", signal.waiting[0]->name);
	return 0;
}

/* ---- once */

enum {
	ONCE_RUNS = 1 + PTHREAD_ONCE_INIT,
	ONCE_DONE,
};

static bool
once_is_done(void *data)
{
	return *(const pthread_once_t *)data == ONCE_DONE;
}

CALL(int, pthread_once, pthread_once_t *once, void (*run)(void))
{
	if (*once == PTHREAD_ONCE_INIT) {
		*once = ONCE_RUNS;
		run();
		*once = ONCE_DONE;
	} else if (*once == ONCE_RUNS) {
		scheduler_wait("the first of several callers", once_is_done, once, FOR_EVER);
	}
	return 0;
}
