/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon/watchdog.h"

#include "server/daemon/readiness.h"
#include "server/worker/worker.h"

#include "common/clock.h"
#include "common/container_of.h"
#include "common/log.h"
#include "common/thread.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>

/* The server is asked this often in the time that systemd waits. systemd is told after all signs
 * have come, so that two askings can be late before it gives up, and the log names who is late
 * after one. */
#define ASKINGS 4

/* One who is asked: a worker by a message, which it takes in a turn of its loop. */
struct watched {
	struct worker_message message;
	struct worker *worker; /* NULL: the main thread */
	_Atomic bool turned;   /* the sign; set by the watched thread */
	uint64_t asked;        /* CLOCK_MONOTONIC, ns */
	bool named;            /* the log knows that it is late */
};

struct watchdog {
	pthread_t thread;
	pthread_mutex_t mutex; /* guards .over */
	pthread_cond_t stopped;
	bool over;
	unsigned int interval_ms; /* from one asking to the next */
	unsigned int count;
	int wake;                 /* eventfd of the main thread */
	struct watched watched[]; /* the main thread, then the workers */
};

static void
watchdog_deliver(struct worker *worker, struct worker_message *message)
{
	struct watched *watched = container_of(message, struct watched, message);

	(void)worker;
	atomic_store_explicit(&watched->turned, true, memory_order_release);
}

/* It has turned since it was asked before: its message is free. */
static void
watchdog_ask(struct watchdog *watchdog, struct watched *watched)
{
	watched->asked = clock_ns(CLOCK_MONOTONIC);
	atomic_store_explicit(&watched->turned, false, memory_order_relaxed);
	if (watched->worker)
		worker_post(watched->worker, &watched->message);
	else
		eventfd_write(watchdog->wake, 1);
}

static const char *
name_of(const struct watched *watched, char name[32])
{
	if (watched->worker)
		snprintf(name, 32, "event loop %u", watched->worker->number + 1);
	else
		snprintf(name, 32, "the main thread");
	return name;
}

/* Returns whether it gave its sign. */
static bool
watchdog_check(struct watched *watched)
{
	double seconds = (double)(clock_ns(CLOCK_MONOTONIC) - watched->asked) / NS_PER_SECOND;
	bool turned = atomic_load_explicit(&watched->turned, memory_order_acquire);
	char name[32];

	if (turned == !watched->named)
		return turned;
	if (turned)
		log_warning("%s runs again", name_of(watched, name));
	else
		log_error(
			"%s hangs: no sign of life for %.1f s; if it stays so, systemd ends the server (WatchdogSec)",
			name_of(watched, name), seconds);
	watched->named = !turned;
	return turned;
}

/* All are looked at, also after one that is late: the log names each. */
static void
watchdog_look(struct watchdog *watchdog)
{
	unsigned int late = 0;

	for (unsigned int i = 0; i < watchdog->count; i++) {
		if (!watchdog_check(&watchdog->watched[i]))
			late++;
	}
	if (late == 0)
		readiness_alive();
	for (unsigned int i = 0; i < watchdog->count; i++) {
		if (atomic_load_explicit(&watchdog->watched[i].turned, memory_order_relaxed))
			watchdog_ask(watchdog, &watchdog->watched[i]);
	}
}

static bool
wait_for_turn(struct watchdog *watchdog)
{
	int64_t end = clock_ms(CLOCK_MONOTONIC) + watchdog->interval_ms;
	int64_t left;
	bool over;

	pthread_mutex_lock(&watchdog->mutex);
	while (!watchdog->over && (left = end - clock_ms(CLOCK_MONOTONIC)) > 0)
		thread_wait(&watchdog->stopped, &watchdog->mutex, (unsigned int)left);
	over = watchdog->over;
	pthread_mutex_unlock(&watchdog->mutex);
	return !over;
}

static void *
watchdog_watch(void *data)
{
	struct watchdog *watchdog = data;

	for (unsigned int i = 0; i < watchdog->count; i++)
		watchdog_ask(watchdog, &watchdog->watched[i]);
	while (wait_for_turn(watchdog))
		watchdog_look(watchdog);
	return NULL;
}

int
watchdog_start(struct watchdog **result, struct worker *workers, unsigned int count, int wake,
	       uint64_t interval_us)
{
	struct watchdog *watchdog =
		calloc(1, sizeof(*watchdog) + (count + 1) * sizeof(watchdog->watched[0]));
	uint64_t interval_ms = interval_us / 1000 / ASKINGS;
	int r;

	if (!watchdog)
		return -ENOMEM;
	/* thread_wait() takes an unsigned int; nobody needs a sign less often than once an hour. */
	watchdog->interval_ms = interval_ms > 3600000 ? 3600000
				: interval_ms > 0     ? (unsigned int)interval_ms
						      : 1;
	watchdog->count = count + 1;
	watchdog->wake = wake;
	for (unsigned int i = 0; i < watchdog->count; i++) {
		watchdog->watched[i].message.deliver = watchdog_deliver;
		watchdog->watched[i].worker = i > 0 ? &workers[i - 1] : NULL;
	}
	pthread_mutex_init(&watchdog->mutex, NULL);
	thread_condition_init(&watchdog->stopped);
	r = thread_start(&watchdog->thread, watchdog_watch, watchdog);
	if (r < 0) {
		watchdog_free(watchdog);
		return r;
	}
	*result = watchdog;
	return 0;
}

void
watchdog_main_turned(struct watchdog *watchdog)
{
	if (watchdog)
		atomic_store_explicit(&watchdog->watched[0].turned, true, memory_order_release);
}

void
watchdog_stop(struct watchdog *watchdog)
{
	if (!watchdog)
		return;
	pthread_mutex_lock(&watchdog->mutex);
	watchdog->over = true;
	pthread_cond_signal(&watchdog->stopped);
	pthread_mutex_unlock(&watchdog->mutex);
	pthread_join(watchdog->thread, NULL);
}

void
watchdog_free(struct watchdog *watchdog)
{
	if (!watchdog)
		return;
	pthread_cond_destroy(&watchdog->stopped);
	pthread_mutex_destroy(&watchdog->mutex);
	free(watchdog);
}
