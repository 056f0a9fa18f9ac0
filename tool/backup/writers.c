/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/backup/writers.h"

#include <errno.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define THREADS 16 /* a disk's queue */

struct result {
	struct end_request *request;
	int failed;
};

struct writers {
	int (*carry_out)(void *data, const struct end_request *request);
	void *data;
	GThreadPool *threads;
	GAsyncQueue *results; /* struct result */
	int event;
};

static void
write_one(void *pushed, void *data)
{
	struct writers *writers = data;
	struct result *result = g_new(struct result, 1);
	const uint64_t one = 1;

	result->request = pushed;
	result->failed = writers->carry_out(writers->data, pushed);
	g_async_queue_push(writers->results, result);
	while (write(writers->event, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

void
writers_free(struct writers *writers)
{
	if (writers->threads)
		g_thread_pool_free(writers->threads, TRUE, TRUE);
	g_async_queue_unref(writers->results);
	if (writers->event >= 0)
		close(writers->event);
	g_free(writers);
}

/* One thread is enough to go on. */
static bool
start_threads(struct writers *writers)
{
	g_autoptr(GError) why = NULL;

	writers->threads = g_thread_pool_new(write_one, writers, THREADS, TRUE, &why);
	return writers->threads && g_thread_pool_get_num_threads(writers->threads) > 0;
}

struct writers *
writers_new(int (*carry_out)(void *data, const struct end_request *request), void *data)
{
	struct writers *writers = g_new0(struct writers, 1);

	writers->carry_out = carry_out;
	writers->data = data;
	writers->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	writers->results = g_async_queue_new_full(g_free);
	if (writers->event >= 0 && start_threads(writers))
		return writers;
	writers_free(writers);
	return NULL;
}

void
writers_start(struct writers *writers, struct end_request *request)
{
	g_thread_pool_push(writers->threads, request, NULL);
}

int
writers_descriptor(const struct writers *writers)
{
	return writers->event;
}

struct end_request *
writers_finished(struct writers *writers, int *failed)
{
	struct result *result = g_async_queue_try_pop(writers->results);
	struct end_request *request;
	uint64_t events;

	if (!result) {
		/* Before the next look: what comes now makes it readable again. */
		if (read(writers->event, &events, sizeof(events)) < 0)
			return NULL;
		result = g_async_queue_try_pop(writers->results);
	}
	if (!result)
		return NULL;
	request = result->request;
	*failed = result->failed;
	g_free(result);
	return request;
}
