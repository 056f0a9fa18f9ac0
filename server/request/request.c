/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/request/request.h"

#include "server/request/probes.h"
#include "server/request/traffic.h"

#include "common/clock.h"
#include "engine/context/ioctx.h"

#include <stdlib.h>

/* Request structures that are allocated at once. */
#define REQUESTS_PER_SLAB 64

static void
request_give_idle(struct request_pool *pool, struct request *request)
{
	request->next = pool->idle;
	pool->idle = request;
}

static struct request *
request_take_idle(struct request_pool *pool)
{
	struct request *request = pool->idle;

	if (!request) {
		/* The first structure of a slab links the slabs. */
		struct request *slab = calloc(REQUESTS_PER_SLAB, sizeof(*slab));

		if (!slab)
			return NULL;
		slab->next = pool->slabs;
		pool->slabs = slab;
		for (unsigned int i = 1; i < REQUESTS_PER_SLAB; i++)
			request_give_idle(pool, &slab[i]);
		request = pool->idle;
	}
	pool->idle = request->next;
	return request;
}

uint64_t
request_read_clock(struct request_pool *pool)
{
	pool->now = clock_ns(CLOCK_BOOTTIME);
	return pool->now;
}

struct request *
request_begin(struct request_queue *queue, const struct nbd_request *nbd)
{
	struct request *request = request_take_idle(queue->pool);

	if (!request)
		return NULL;
	request->queue = queue;
	request->nbd = *nbd;
	request->leader = request;
	request->member = NULL;
	request->users = 1;
	request->begun = request_now(queue->pool);
	request->result = 0;
	request->data = NULL;
	request->data_length = request->head_length = 0;
	request->part_count = 0;
	queue->in_flight++;
	traffic_begin(queue->traffic);
	PROBE(received, request);
	return request;
}

bool
request_take_buffer(struct request *request, size_t length)
{
	struct request_queue *queue = request->queue;
	struct buffers *buffers = &queue->pool->buffers;
	bool taken = queue->buffers > 0 ? buffers_take(buffers, length, &request->buffer)
					: buffers_take_first(buffers, length, &request->buffer);

	if (taken)
		queue->buffers++;
	return taken;
}

/* One user of the leader's buffer less. */
static inline void
request_leave_leader(struct request_queue *queue, struct request *leader)
{
	if (--leader->users > 0)
		return;
	if (leader->buffer.memory)
		queue->buffers--;
	buffers_give(&queue->pool->buffers, &leader->buffer);
	request_give_idle(queue->pool, leader);
}

static inline void
request_release(struct request_queue *queue, struct request *request)
{
	struct request *leader = request->leader;

	if (request != leader)
		request_give_idle(queue->pool, request);
	request_leave_leader(queue, leader);
}

void
request_free(struct request *request)
{
	request_release(request->queue, request);
}

void
request_finish(struct request *request)
{
	struct request_queue *queue = request->queue;

	queue->in_flight--;
	traffic_end(queue->traffic);
	request_release(queue, request);
}

void
request_keep(struct request *request)
{
	request->leader->users++;
}

void
request_leave(struct request *request)
{
	request_leave_leader(request->queue, request->leader);
}

void
request_ask_helper(struct request *request, void (*work)(struct helper_job *job),
		   void (*done)(struct helper_job *job))
{
	request->job.work = work;
	request->job.done = done;
	ioctx_help(request->queue->ctx, &request->job);
}

void
request_pool_free_all(struct request_pool *pool)
{
	while (pool->slabs) {
		struct request *slab = pool->slabs;

		pool->slabs = slab->next;
		free(slab);
	}
}
