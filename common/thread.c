/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/thread.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <unistd.h>

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

unsigned int
thread_processors(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		return (unsigned int)CPU_COUNT(&set);
	/* The machine has more than 1,024. */
	return (unsigned int)sysconf(_SC_NPROCESSORS_ONLN);
}

static void (*_Atomic confinement)(enum thread_kind kind);
static _Thread_local bool named, confined;

void
thread_set_confinement(void (*confine)(enum thread_kind kind))
{
	atomic_store(&confinement, confine);
}

/* The names that `top -H' shows, of up to 15 bytes. */
static const char *const names[THREAD_KINDS] = {
	[THREAD_LOOP] = "loop",
	[THREAD_HELPER] = "helper",
	[THREAD_RECORDER] = "recorder",
	[THREAD_SWEEPER] = "sweeper",
	[THREAD_HANDSHAKES] = "handshakes",
	[THREAD_HTTP] = "http",
	[THREAD_FETCHES] = "fetches",
	[THREAD_RINGS] = "rings",
};

void
thread_set_name(enum thread_kind kind)
{
	prctl(PR_SET_NAME, names[kind], 0, 0, 0);
}

void
thread_confine(enum thread_kind kind)
{
	void (*confine)(enum thread_kind kind) = atomic_load(&confinement);

	if (!named)
		thread_set_name(kind);
	named = true;
	if (!confine || confined)
		return;
	confined = true;
	confine(kind);
}
