/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/worker/worker_call.h"

#include "server/worker/worker.h"

#include "common/cleanup.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

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
