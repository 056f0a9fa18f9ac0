/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/thread.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

int
thread_start(pthread_t *thread, void *(*run)(void *data), void *data)
{
	sigset_t all, before;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(thread, NULL, run, data);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}

void
thread_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, unsigned int ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_cond_timedwait(condition, mutex, &until);
}

void
thread_condition_init(pthread_cond_t *condition)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &attributes);
	pthread_condattr_destroy(&attributes);
}

static void (*_Atomic confinement)(enum thread_kind kind);
static _Thread_local bool confined;

void
thread_set_confinement(void (*confine)(enum thread_kind kind))
{
	atomic_store(&confinement, confine);
}

void
thread_confine(enum thread_kind kind)
{
	void (*confine)(enum thread_kind kind) = atomic_load(&confinement);

	if (!confine || confined)
		return;
	confined = true;
	confine(kind);
}
