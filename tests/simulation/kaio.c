/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/kaio.h"

#include "tests/simulation/chance.h"
#include "tests/simulation/descriptor.h"
#include "tests/simulation/file.h"
#include "tests/simulation/process.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>

struct kaio_mood kaio_mood;

struct kaio_op {
	struct kaio_context *context;
	struct iocb iocb;
	struct description *file;
	struct description *event; /* NULL: none */
	struct kaio_op *next;
};

struct kaio_context {
	aio_context_t number;
	struct process *process;
	unsigned int size;      /* operations */
	unsigned int in_flight; /* also those whose events were not taken */
	struct io_event *events;
	unsigned int ready; /* events */
	struct kaio_op *ops;
	struct kaio_context *next;
};

static struct kaio_context *contexts;

/* ---- operations */

static void
kaio_op_free(struct kaio_op *op)
{
	struct kaio_op **at = &op->context->ops;

	while (*at != op)
		at = &(*at)->next;
	*at = op->next;
	descriptor_put(op->file);
	if (op->event)
		descriptor_put(op->event);
	free(op);
}

static void
kaio_op_end(struct kaio_op *op, long result)
{
	static const uint64_t one = 1;
	struct kaio_context *context = op->context;

	context->events[context->ready++] =
		(struct io_event){.data = op->iocb.aio_data, .res = result};
	if (op->event)
		op->event->kind->write(op->event, &one, sizeof(one));
	kaio_op_free(op);
}

static long
kaio_op_do(const struct kaio_op *op)
{
	const struct iocb *iocb = &op->iocb;
	void *bytes = (void *)(uintptr_t)iocb->aio_buf;
	const uint64_t offset = (uint64_t)iocb->aio_offset;

	switch (iocb->aio_lio_opcode) {
	case IOCB_CMD_PREAD: return file_read(op->file, bytes, iocb->aio_nbytes, offset);
	case IOCB_CMD_PWRITE:
		return file_write(op->file, bytes, iocb->aio_nbytes, offset,
				  (int)iocb->aio_rw_flags);
	case IOCB_CMD_FDSYNC: return file_sync(op->file, "fdatasync");
	default: trace_fail("operation %u of AIO is not simulated", iocb->aio_lio_opcode);
	}
}

static void *
kaio_op_run(void *data)
{
	struct kaio_op *op = data;

	kaio_op_end(op, kaio_op_do(op));
	return NULL;
}

/* Returns whether Linux would wait, and was asked not to: its result is then *error. */
static bool
kaio_op_would_wait(const struct kaio_op *op, int *error)
{
	const bool writes = op->iocb.aio_lio_opcode == IOCB_CMD_PWRITE;

	if (!(op->iocb.aio_rw_flags & RWF_NOWAIT))
		return false;
	*error = kaio_mood.late_no_try && writes ? -EOPNOTSUPP : -EAGAIN;
	return *error == -EOPNOTSUPP || chance_once_in(4);
}

static void
kaio_op_begin(struct kaio_op *op)
{
	const bool tries = op->iocb.aio_rw_flags & RWF_NOWAIT;
	struct fiber *fiber;
	int error;

	if (kaio_op_would_wait(op, &error)) {
		kaio_op_end(op, error);
		return;
	}
	if (!tries && op->iocb.aio_lio_opcode != IOCB_CMD_FDSYNC && !(op->file->flags & O_DIRECT)) {
		kaio_op_end(op, kaio_op_do(op));
		return;
	}
	fiber = scheduler_start("kernel", process_self(), kaio_op_run, op);
	fiber->detached = true;
}

/* Returns 0 or -errno. */
static int
kaio_take(struct kaio_context *context, const struct iocb *iocb)
{
	struct description *file = descriptor_find((int)iocb->aio_fildes, NULL);
	struct kaio_op *op;

	if (context->in_flight == context->size || chance_once_in(kaio_mood.refuse))
		return -EAGAIN;
	if (!file)
		return -EBADF;
	if (iocb->aio_rw_flags & RWF_NOWAIT && kaio_mood.no_try)
		return -EOPNOTSUPP;
	op = calloc(1, sizeof(*op));
	op->context = context;
	op->iocb = *iocb;
	op->file = file;
	file->users++;
	if (iocb->aio_flags & IOCB_FLAG_RESFD) {
		op->event = descriptor_find((int)iocb->aio_resfd, NULL);
		op->event->users++;
	}
	op->next = context->ops;
	context->ops = op;
	context->in_flight++;
	kaio_op_begin(op);
	return 0;
}

/* ---- contexts */

static struct kaio_context *
kaio_find(aio_context_t number)
{
	struct kaio_context *context = contexts;

	while (context && (context->number != number || context->process != process_self()))
		context = context->next;
	return context;
}

static void
kaio_free(struct kaio_context *context)
{
	struct kaio_context **at = &contexts;

	while (*at != context)
		at = &(*at)->next;
	*at = context->next;
	while (context->ops)
		kaio_op_free(context->ops);
	free(context->events);
	free(context);
}

static long
kaio_set_up(unsigned int size, aio_context_t *number)
{
	static aio_context_t last;
	struct kaio_context *context;

	if (kaio_mood.absent)
		return -ENOSYS;
	context = calloc(1, sizeof(*context));
	context->number = *number = ++last;
	context->process = process_self();
	context->size = size;
	context->events = calloc(size, sizeof(context->events[0]));
	context->next = contexts;
	contexts = context;
	return 0;
}

static long
kaio_submit(struct kaio_context *context, long count, struct iocb **list)
{
	long taken = 0;
	int r = 0;

	if (!context)
		return -EINVAL;
	while (taken < count && (r = kaio_take(context, list[taken])) == 0) {
		taken++;
		if (chance_once_in(8))
			scheduler_yield();
	}
	return taken ? taken : r;
}

struct kaio_wait {
	const struct kaio_context *context;
	unsigned int min;
};

static bool
kaio_has_enough(void *data)
{
	const struct kaio_wait *wait = data;

	return wait->context->ready >= wait->min;
}

static long
kaio_get_events(struct kaio_context *context, long min, long most, struct io_event *events)
{
	struct kaio_wait wait = {context, (unsigned int)min};
	long count;

	if (!context)
		return -EINVAL;
	if (min > 0 && chance_once_in(300))
		return -EINTR;
	if (min > 0)
		scheduler_wait("events of AIO", kaio_has_enough, &wait, FOR_EVER);
	count = (long)context->ready < most ? (long)context->ready : most;
	memcpy(events, context->events, (size_t)count * sizeof(*events));
	context->ready -= (unsigned int)count;
	context->in_flight -= (unsigned int)count;
	memmove(context->events, context->events + count, context->ready * sizeof(*events));
	return count;
}

static bool
kaio_is_idle(void *data)
{
	const struct kaio_context *context = data;

	return !context->ops;
}

static long
kaio_destroy(struct kaio_context *context)
{
	if (!context)
		return -EINVAL;
	scheduler_wait("the end of AIO", kaio_is_idle, context, FOR_EVER);
	kaio_free(context);
	return 0;
}

void
kaio_drop(struct process *process)
{
	struct kaio_context *next;

	for (struct kaio_context *context = contexts; context; context = next) {
		next = context->next;
		if (context->process != process)
			continue;
		if (process->well)
			trace_fail("the server ended and left a context of AIO");
		kaio_free(context);
	}
}

long
kaio_call(long number, va_list arguments)
{
	const unsigned long first = va_arg(arguments, unsigned long);
	long second, third;

	switch (number) {
	case SYS_io_setup: return kaio_set_up((unsigned int)first, va_arg(arguments, void *));
	case SYS_io_submit:
		second = va_arg(arguments, long);
		return kaio_submit(kaio_find(first), second, va_arg(arguments, void *));
	case SYS_io_getevents:
		second = va_arg(arguments, long);
		third = va_arg(arguments, long);
		return kaio_get_events(kaio_find(first), second, third, va_arg(arguments, void *));
	case SYS_io_destroy: return kaio_destroy(kaio_find(first));
	default: return -ENOSYS;
	}
}
