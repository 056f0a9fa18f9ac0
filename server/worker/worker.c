/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/worker/worker.h"

#include "server/connection/conn.h"
#include "server/connection/conn_run.h"
#include "server/connection/look.h"
#include "server/connection/stall.h"
#include "server/connection/throttle.h"
#include "server/connection/tls_transport.h"
#include "server/connection/worker_contexts.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/container_of.h"
#include "common/log.h"
#include "common/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* Delays before a failed wait for an event, and a failed turn, are tried again. */
#define UNPOLLED_MS 100
#define FAILED_US   1000

/* ---- turns */

/* Connections that wait for memory try again when some may have been given back. */
static void
worker_wake_paused(struct worker *worker)
{
	if (!worker->starved)
		return;
	worker->starved = false;
	for (struct conn *conn = worker->conns; conn; conn = conn->next) {
		if (conn->paused || conn->queue.hungry.first)
			conn_mark_dirty(conn);
	}
}

static void
worker_settle(struct worker *worker)
{
	worker_wake_paused(worker);
	if (worker->busy)
		worker_contexts_mark_wanting(worker);
	/* At most twice, unless operations complete as soon as they are submitted. */
	while ((worker->submitted && worker_contexts_run(worker)) || worker->dirty) {
		while (worker->dirty) {
			struct conn *conn = worker->dirty;

			worker->dirty = conn->next_dirty;
			conn->dirty = false;
			conn_run_settle(conn);
		}
	}
	if (worker->leaving)
		worker_contexts_free_leaving(worker);
	if (worker->pool.buffers.unregistered)
		buffers_register(&worker->pool.buffers);
}

static int
worker_timeout(struct worker *worker)
{
	if (worker->busy && worker_contexts_rest(worker))
		return 0;
	if (loop_sends_quietly(worker->loop) && (worker->hurried || worker->starved))
		return 0;
	if (worker->unpolled)
		return UNPOLLED_MS;
	if (!worker->deadlines && !worker->starved)
		return -1;
	return worker->throttled ? throttle_timeout(worker) : 1000;
}

/* Each uses one ticket, and comes back to its place in the list: they take turns here even if all
 * of them are late. */
static void
worker_wake_throttled(struct worker *worker)
{
	struct conn *conn;

	while ((conn = throttle_next(worker)) != NULL) {
		conn_mark_dirty(conn);
		if (!conn_is_closing(conn))
			conn_run_resume(conn);
	}
}

static void
worker_check_deadlines(struct worker *worker)
{
	time_t now;

	if (!worker->deadlines && !worker->starved)
		return;
	if (worker->throttled)
		worker_wake_throttled(worker);
	now = clock_seconds(CLOCK_MONOTONIC_COARSE);
	if (now == worker->checked)
		return;
	worker->checked = now;
	for (struct conn *conn = worker->conns; conn; conn = conn->next) {
		conn_check_deadline(conn, now);
		look_check(conn, now);
	}
	if (worker->starved)
		stall_check(worker);
}

/* ---- the mailbox */

/* A connection may wait for a message: a step of its TLS handshake, on another thread. The message
 * of a look comes even if no connection is left. */
static bool
worker_expects_mail(const struct worker *worker)
{
	return !worker->stopping || worker->conns || worker->looks;
}

static void
worker_end_conns(struct worker *worker, enum worker_end end)
{
	for (struct conn *conn = worker->conns; conn; conn = conn->next) {
		if (end == WORKER_ABORTS || conn->negotiation)
			conn_abort(conn);
		else if (end == WORKER_LEAVES)
			conn_close(conn);
		else if (end == WORKER_DRAINS)
			conn_drain(conn);
		else
			conn_refuse_requests(conn);
	}
}

static void
worker_open_mailbox(struct worker *worker)
{
	struct worker_message *messages;
	struct conn *arrived;
	enum worker_end end;

	pthread_mutex_lock(&worker->mutex);
	arrived = steal_pointer(&worker->arrived);
	messages = steal_pointer(&worker->messages);
	end = worker->end;
	worker->stopping = worker->awaited;
	pthread_mutex_unlock(&worker->mutex);
	while (arrived) {
		struct conn *conn = arrived;

		arrived = conn->next;
		conn_run_start(conn, worker);
	}
	while (messages) {
		struct worker_message *message = messages;

		messages = message->next;
		message->deliver(worker, message);
	}
	if (end != WORKER_SERVES)
		worker_end_conns(worker, end);
}

static void
worker_mail_came(struct completion *completion, int result)
{
	struct worker *worker = container_of(completion, struct worker, event_op.completion);
	eventfd_t count;

	worker->event_op.active = false;
	if (worker->over)
		return;
	if (result < 0)
		worker_poll_failed(worker, result);
	else
		eventfd_read(worker->event, &count);
	worker_open_mailbox(worker);
	/* worker_clean_up() waits for the end of the poll. */
	if (worker_expects_mail(worker) && result >= 0)
		loop_poll(worker->loop, &worker->event_op, worker->event);
}

/* ---- the thread */

static bool
worker_turn(struct worker *worker)
{
	static struct log_limit limit = LOG_LIMIT_INIT(1, 10);
	bool unpolled = worker->unpolled;
	int r;

	worker->pool.now = 0;
	r = spin_turn(&worker->spin, worker->loop, worker_timeout(worker));
	worker->hurried = worker->hurried && loop_sends_quietly(worker->loop);
	/* After a turn, which may have slept: repeated failures must not keep the processor busy.
	 */
	if (unpolled) {
		worker->unpolled = false;
		if (!worker->event_op.active && worker_expects_mail(worker))
			loop_poll(worker->loop, &worker->event_op, worker->event);
		worker_contexts_poll(worker);
	}
	if (r < 0 && log_limit_pass(&limit, NULL))
		log_error("event loop: %s; trying again", strerror(-r));
	/* A failed turn did not sleep, and the next may fail at once. */
	if (r < 0)
		usleep(FAILED_US);
	worker_check_deadlines(worker);
	worker_settle(worker);
	return worker_expects_mail(worker);
}

/* Frees all of a worker that has no connection left: only polls of events are in flight. */
static void
worker_clean_up(struct worker *worker)
{
	worker->over = true;
	/* If the cancellation fails, the event ends the poll. */
	eventfd_write(worker->event, 1);
	loop_cancel(worker->loop, &worker->event_op);
	while (worker->event_op.active)
		loop_turn(worker->loop, -1);
	worker_contexts_free(worker);
	buffers_fini(&worker->pool.buffers);
	tls_transport_free_outputs(worker);
	loop_free(worker->loop);
	request_pool_free_all(&worker->pool);
}

static void
worker_tell_started(struct worker *worker, int result)
{
	pthread_mutex_lock(&worker->mutex);
	worker->started = true;
	worker->start_result = result;
	pthread_cond_signal(&worker->started_changed);
	pthread_mutex_unlock(&worker->mutex);
}

/* The server made a small ring before; this one can still fail, since its memory may count towards
 * RLIMIT_MEMLOCK. */
static int
worker_make_loop(struct worker *worker)
{
	bool spins = worker->config->poll_max_us > 0;
	int r = worker->config->use_ring ? loop_new(&worker->loop, true, spins) : 0;

	if (r == 0 && worker->config->use_ring)
		return 0;
	if (r < 0)
		log_warning(
			"thread %u: no io_uring for its sockets: %s; it uses epoll, which is slower%s",
			worker->number + 1, strerror(-r),
			r == -ENOMEM ? " (ulimit -l, the locked memory, can be higher)" : "");
	return loop_new(&worker->loop, false, spins);
}

static void *
worker_main(void *data)
{
	struct worker *worker = data;
	int r = worker_make_loop(worker);

	if (r < 0) {
		worker_tell_started(worker, r);
		return NULL;
	}
	worker->spin.max = (uint64_t)worker->config->poll_max_us * 1000;
	buffers_init(&worker->pool.buffers, worker->config->memory_limit, loop_ring(worker->loop));
	if (worker->config->reserve)
		r = buffers_reserve(&worker->pool.buffers);
	if (worker->config->reserve && r == 0)
		r = worker_contexts_reserve(worker);
	if (r < 0) {
		worker_clean_up(worker);
		worker_tell_started(worker, r);
		return NULL;
	}
	worker->event_op.completion.done = worker_mail_came;
	loop_poll(worker->loop, &worker->event_op, worker->event);
	/* No client is let in before. */
	thread_confine(THREAD_LOOP);
	worker_tell_started(worker, 0);
	while (worker_turn(worker))
		;
	worker_clean_up(worker);
	return NULL;
}

int
worker_start(struct worker *worker, unsigned int number, const struct worker_config *config)
{
	int r;

	*worker = (struct worker){.config = config, .number = number};
	worker->event = eventfd(0, EFD_CLOEXEC);
	if (worker->event < 0)
		return -errno;
	pthread_mutex_init(&worker->mutex, NULL);
	pthread_cond_init(&worker->started_changed, NULL);
	r = thread_start(&worker->thread, worker_main, worker);
	if (r < 0) {
		close(worker->event);
		return r;
	}
	pthread_mutex_lock(&worker->mutex);
	while (!worker->started)
		pthread_cond_wait(&worker->started_changed, &worker->mutex);
	r = worker->start_result;
	pthread_mutex_unlock(&worker->mutex);
	if (r < 0)
		worker_join(worker);
	return r;
}

int
worker_give(struct worker *worker, int fd, struct identity *identity)
{
	struct conn *conn = conn_run_new(fd, identity);

	if (!conn)
		return -ENOMEM;
	atomic_fetch_add_explicit(&worker->connections, 1, memory_order_relaxed);
	pthread_mutex_lock(&worker->mutex);
	conn->next = worker->arrived;
	worker->arrived = conn;
	pthread_mutex_unlock(&worker->mutex);
	eventfd_write(worker->event, 1);
	return 0;
}

void
worker_post(struct worker *worker, struct worker_message *message)
{
	pthread_mutex_lock(&worker->mutex);
	message->next = worker->messages;
	worker->messages = message;
	pthread_mutex_unlock(&worker->mutex);
	eventfd_write(worker->event, 1);
}

void
worker_stop(struct worker *worker, enum worker_end end)
{
	pthread_mutex_lock(&worker->mutex);
	if (end > worker->end)
		worker->end = end;
	pthread_mutex_unlock(&worker->mutex);
	eventfd_write(worker->event, 1);
}

void
worker_join(struct worker *worker)
{
	pthread_mutex_lock(&worker->mutex);
	worker->awaited = true;
	pthread_mutex_unlock(&worker->mutex);
	eventfd_write(worker->event, 1);
	pthread_join(worker->thread, NULL);
	pthread_cond_destroy(&worker->started_changed);
	pthread_mutex_destroy(&worker->mutex);
	close(worker->event);
}

/* ---- calls on all threads */

struct worker_call {
	void (*call)(struct worker *worker, void *data);
	void *data;
	pthread_mutex_t mutex;
	pthread_cond_t returned;
	unsigned int pending; /* threads on which it has not returned yet */
};

/* On the worker's thread. */
static void
worker_call_deliver(struct worker *worker, struct worker_message *message)
{
	struct worker_call *call = message->data;

	call->call(worker, call->data);
	pthread_mutex_lock(&call->mutex);
	call->pending--;
	pthread_cond_signal(&call->returned);
	pthread_mutex_unlock(&call->mutex);
}

int
workers_call(struct worker *workers, unsigned int count,
	     void (*function)(struct worker *worker, void *data), void *data)
{
	struct worker_message *CLEANUP_FREE messages = calloc(count, sizeof(*messages));
	struct worker_call call = {
		.call = function,
		.data = data,
		.mutex = PTHREAD_MUTEX_INITIALIZER,
		.returned = PTHREAD_COND_INITIALIZER,
		.pending = count,
	};

	if (!messages)
		return -ENOMEM;
	for (unsigned int i = 0; i < count; i++) {
		messages[i] =
			(struct worker_message){.deliver = worker_call_deliver, .data = &call};
		worker_post(&workers[i], &messages[i]);
	}
	pthread_mutex_lock(&call.mutex);
	while (call.pending > 0)
		pthread_cond_wait(&call.returned, &call.mutex);
	pthread_mutex_unlock(&call.mutex);
	pthread_cond_destroy(&call.returned);
	pthread_mutex_destroy(&call.mutex);
	return 0;
}
