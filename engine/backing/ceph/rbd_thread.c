/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/ceph/rbd_thread.h"

#include "common/thread.h"

int
rbd_thread_start(struct rbd_store *store, void *(*run)(void *data), void *data)
{
	pthread_t thread;
	int r;

	pthread_mutex_lock(&store->pending);
	r = thread_start(&thread, run, data);
	if (r == 0) {
		pthread_detach(thread);
		store->threads++;
	}
	pthread_mutex_unlock(&store->pending);
	return r;
}

void
rbd_thread_end(struct rbd_store *store)
{
	pthread_mutex_lock(&store->pending);
	store->threads--;
	pthread_cond_signal(&store->end_of_thread);
	pthread_mutex_unlock(&store->pending);
}

void
rbd_threads_await(struct rbd_store *store)
{
	pthread_mutex_lock(&store->pending);
	while (store->threads > 0)
		pthread_cond_wait(&store->end_of_thread, &store->pending);
	pthread_mutex_unlock(&store->pending);
}
