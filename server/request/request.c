/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/request/request.h"

#include "server/connection/conn_state.h"
#include "server/request/probes.h"
#include "server/request/traffic.h"
#include "server/worker/worker_contexts.h"

#include "engine/context/ioctx.h"

#include <stdlib.h>

/* Request structures that are allocated at once. */
#define REQUESTS_PER_SLAB 64

static void
give_idle(struct worker *worker, struct request *request)
{
	request->next = worker->idle;
	worker->idle = request;
}

static struct request *
take_idle(struct worker *worker)
{
	struct request *request = worker->idle;

	if (!request) {
		/* The first structure of a slab links the slabs. */
		struct request *slab = calloc(REQUESTS_PER_SLAB, sizeof(*slab));

		if (!slab)
			return NULL;
		slab->next = worker->request_slabs;
		worker->request_slabs = slab;
		for (unsigned int i = 1; i < REQUESTS_PER_SLAB; i++)
			give_idle(worker, &slab[i]);
		request = worker->idle;
	}
	worker->idle = request->next;
	return request;
}

struct request *
request_begin(struct conn *conn, const struct nbd_request *nbd)
{
	struct request *request = take_idle(conn->worker);

	if (!request)
		return NULL;
	request->conn = conn;
	request->nbd = *nbd;
	request->leader = request;
	request->member = NULL;
	request->users = 1;
	request->begun = worker_now(conn->worker);
	request->result = 0;
	request->data = NULL;
	request->data_length = request->head_length = 0;
	request->part_count = 0;
	conn->requests++;
	traffic_begin(conn->context->traffic);
	PROBE(received, request);
	return request;
}

bool
request_take_buffer(struct request *request, size_t length)
{
	struct conn *conn = request->conn;
	struct buffers *buffers = &conn->worker->buffers;
	bool taken = conn->buffers > 0 ? buffers_take(buffers, length, &request->buffer)
				       : buffers_take_first(buffers, length, &request->buffer);

	if (taken)
		conn->buffers++;
	return taken;
}

/* One user of the leader's buffer less. */
static inline void
leave(struct conn *conn, struct request *leader)
{
	if (--leader->users > 0)
		return;
	if (leader->buffer.memory)
		conn->buffers--;
	buffers_give(&conn->worker->buffers, &leader->buffer);
	give_idle(conn->worker, leader);
}

void
request_finish(struct request *request)
{
	struct conn *conn = request->conn;
	struct request *leader = request->leader;

	conn->requests--;
	traffic_end(conn->context->traffic);
	if (request != leader)
		give_idle(conn->worker, request);
	leave(conn, leader);
}

void
request_keep(struct request *request)
{
	request->leader->users++;
}

void
request_leave(struct request *request)
{
	leave(request->conn, request->leader);
}

void
request_ask_helper(struct request *request, void (*work)(struct helper_job *job),
		   void (*done)(struct helper_job *job))
{
	request->job.work = work;
	request->job.done = done;
	ioctx_help(request->conn->context->ctx, &request->job);
}

void
request_free_all(struct worker *worker)
{
	while (worker->request_slabs) {
		struct request *slab = worker->request_slabs;

		worker->request_slabs = slab->next;
		free(slab);
	}
}
