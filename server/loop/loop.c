/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/loop/loop.h"

#include "server/loop/loop_backend.h"

#include <errno.h>
#include <stdlib.h>

int
loop_new(struct loop **result, bool use_ring, bool spins)
{
	struct loop *loop = calloc(1, sizeof(*loop));
	int r;

	if (!loop)
		return -ENOMEM;
	loop->backend = use_ring ? &loop_backend_uring : &loop_backend_epoll;
	r = loop->backend->init(loop, spins);
	if (r < 0) {
		free(loop);
		return r;
	}
	*result = loop;
	return 0;
}

void
loop_free(struct loop *loop)
{
	if (!loop)
		return;
	loop->backend->fini(loop);
	free(loop);
}

struct ring *
loop_ring(struct loop *loop)
{
	return loop->ring;
}

void
loop_recv(struct loop *loop, struct loop_op *op, int fd, void *buffer, size_t length, bool all)
{
	op->kind = LOOP_RECV;
	op->fd = fd;
	op->buffer = buffer;
	op->length = length;
	op->active = true;
	loop->backend->start(loop, op, all);
}

void
loop_send(struct loop *loop, struct loop_op *op, int fd, struct msghdr *message)
{
	op->kind = LOOP_SEND;
	op->fd = fd;
	op->message = message;
	op->active = true;
	loop->backend->start(loop, op, true);
}

void
loop_send_quietly(struct loop *loop, struct loop_op *op, int fd, struct msghdr *message,
		  size_t length)
{
	op->kind = loop->is_quiet ? LOOP_SEND_QUIETLY : LOOP_SEND;
	op->fd = fd;
	op->message = message;
	op->length = length;
	op->active = true;
	loop->backend->start(loop, op, true);
}

bool
loop_sends_quietly(const struct loop *loop)
{
	return loop->quiet != NULL;
}

void
loop_poll(struct loop *loop, struct loop_op *op, int fd)
{
	op->kind = LOOP_POLL;
	op->fd = fd;
	op->active = true;
	loop->backend->start(loop, op, false);
}

void
loop_cancel(struct loop *loop, struct loop_op *op)
{
	if (op->active)
		loop->backend->cancel(loop, op);
}

bool
loop_waits(struct loop *loop, const struct loop_op *op)
{
	return op->active && loop->backend->waits(loop, op);
}

bool
loop_has_result(struct loop *loop, const struct loop_op *op, int *result)
{
	return op->active && loop->backend->has_result(loop, op, result);
}

int
loop_turn(struct loop *loop, int timeout_ms)
{
	return loop->backend->turn(loop, timeout_ms);
}
