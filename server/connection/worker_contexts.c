/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/worker_contexts.h"

#include "server/connection/offer.h"

#include "engine/context/ioctx.h"
#include "engine/context/pool.h"

#include "common/container_of.h"
#include "common/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

static bool
worker_context_is_polled(const struct worker_context *context)
{
	return !context->leaving && (!context->worker->stopping || context->worker->conns);
}

void
worker_poll_failed(struct worker *worker, int result)
{
	static struct log_limit limit = LOG_LIMIT_INIT(1, 60);

	worker->unpolled = true;
	if (log_limit_pass(&limit, NULL))
		log_error("event loop: cannot wait for an event: %s; trying again",
			  strerror(-result));
}

static void
worker_context_event(struct completion *completion, int result)
{
	struct worker_context *context =
		container_of(completion, struct worker_context, event.completion);
	eventfd_t count;

	context->event.active = false;
	if (context->leaving || context->worker->over)
		return;
	worker_context_mark(context);
	if (result < 0) {
		worker_poll_failed(context->worker, result);
		return;
	}
	eventfd_read(ioctx_event(context->ctx), &count);
	if (worker_context_is_polled(context))
		loop_poll(context->worker->loop, &context->event, ioctx_event(context->ctx));
}

static struct worker_context *
worker_contexts_find(struct worker *worker, const struct offer *offer)
{
	struct worker_context *context = worker->contexts;

	while (context && context->offer != offer)
		context = context->next;
	return context;
}

struct worker_context *
worker_context(struct worker *worker, struct offer *offer)
{
	struct worker_context *context = worker_contexts_find(worker, offer);

	if (context)
		return context;
	context = calloc(1, sizeof(*context));
	if (!context ||
	    pool_host(offer->export->image, loop_ring(worker->loop), &context->ctx) < 0) {
		free(context);
		return NULL;
	}
	if (worker->config->reserve)
		ioctx_populate(context->ctx);
	context->worker = worker;
	context->offer = offer;
	context->traffic = &offer->export->traffic[worker->number];
	context->next = worker->contexts;
	worker->contexts = context;
	context->event.completion.done = worker_context_event;
	loop_poll(worker->loop, &context->event, ioctx_event(context->ctx));
	return context;
}

void
worker_contexts_mark_wanting(struct worker *worker)
{
	for (struct worker_context *context = worker->busy; context; context = context->next_busy) {
		if (ioctx_wants_run(context->ctx))
			context->submitted = worker->submitted = true;
	}
}

bool
worker_contexts_run(struct worker *worker)
{
	bool ran = false;

	worker->submitted = false;
	for (struct worker_context *context = worker->busy; context; context = context->next_busy) {
		if (!context->submitted)
			continue;
		context->submitted = false;
		worker->pool.now = 0;
		ioctx_run(context->ctx, false);
		ran = true;
	}
	return ran;
}

bool
worker_contexts_rest(struct worker *worker)
{
	struct worker_context **link = &worker->busy;
	bool wanting = false;

	while (*link) {
		struct worker_context *context = *link;

		if (context->submitted || !ioctx_is_idle(context->ctx)) {
			wanting = wanting || ioctx_wants_run(context->ctx);
			link = &context->next_busy;
			continue;
		}
		context->busy = false;
		*link = context->next_busy;
	}
	return wanting;
}

void
worker_forget(struct worker *worker, struct offer *offer)
{
	struct worker_context *context = worker_contexts_find(worker, offer);

	if (!context) {
		worker->config->forgotten(worker->config->exports, offer);
		return;
	}
	context->leaving = worker->leaving = true;
	loop_cancel(worker->loop, &context->event);
}

void
worker_contexts_free_leaving(struct worker *worker)
{
	worker->leaving = false;
	for (struct worker_context **at = &worker->contexts; *at;) {
		struct worker_context *context = *at, **link;

		if (!context->leaving || context->event.active) {
			worker->leaving = worker->leaving || context->leaving;
			at = &context->next;
			continue;
		}
		*at = context->next;
		link = &worker->busy;
		while (*link && *link != context)
			link = &(*link)->next_busy;
		if (*link)
			*link = context->next_busy;
		pool_unhost(context->offer->export->image, context->ctx);
		worker->config->forgotten(worker->config->exports, context->offer);
		free(context);
	}
}

int
worker_contexts_reserve(struct worker *worker)
{
	const struct worker_config *config = worker->config;
	struct offer *offer;

	for (size_t n = 0; (offer = config->offer_at(config->exports, n)) != NULL; n++) {
		if (!worker_context(worker, offer))
			return -ENOMEM;
	}
	return 0;
}

void
worker_contexts_poll(struct worker *worker)
{
	for (struct worker_context *context = worker->contexts; context; context = context->next) {
		if (!context->event.active && worker_context_is_polled(context))
			loop_poll(worker->loop, &context->event, ioctx_event(context->ctx));
	}
}

void
worker_contexts_free(struct worker *worker)
{
	while (worker->contexts) {
		struct worker_context *context = worker->contexts;

		eventfd_write(ioctx_event(context->ctx), 1);
		loop_cancel(worker->loop, &context->event);
		while (context->event.active)
			loop_turn(worker->loop, -1);
		worker->contexts = context->next;
		pool_unhost(context->offer->export->image, context->ctx);
		free(context);
	}
}
