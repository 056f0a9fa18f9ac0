/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/fake_backend.h"

#include "engine/context/ioctx.h"
#include "engine/context/pool.h"
#include "engine/io/chunk.h"
#include "engine/io/image_state.h"
#include "engine/io/io.h"
#include "engine/io/ioctx_state.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* How long a run() may wait for a test to release a chunk. */
#define PATIENCE 20

struct entry {
	struct chunk *chunk;
	struct fake_event *event; /* NULL: there were too many to remember */
	bool fresh;               /* queued since run() began: not yet with the "kernel" */
};

struct queue {
	struct fake *fake;
	unsigned int count;
	struct entry entries[]; /* depth of them */
};

static struct fake *
fake_of(const struct ioctx *ctx)
{
	return (struct fake *)((char *)ctx->backend - offsetof(struct fake, backend));
}

static uint32_t
next_random(struct fake *fake)
{
	fake->random = fake->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(fake->random >> 33);
}

static int
fake_probe(const struct backing *backing, char reason[REASON_MAX])
{
	(void)backing;
	reason[0] = '\0';
	return 0;
}

/* mutex held.  Replaces the first that is `from`. */
static void
set_wake(struct fake *fake, int from, int to)
{
	unsigned int i = 0;

	while (fake->wake[i] != from) {
		i++;
		ck_assert_uint_lt(i, FAKE_HOSTED);
	}
	fake->wake[i] = to;
}

/* mutex held.  Has event loops run their contexts, whose chunks may complete now. */
static void
wake_hosts(struct fake *fake)
{
	for (unsigned int i = 0; i < FAKE_HOSTED; i++)
		if (fake->wake[i])
			eventfd_write(fake->wake[i], 1);
	pthread_cond_broadcast(&fake->released);
}

static int
fake_ctx_init(struct ioctx *ctx)
{
	struct fake *fake = fake_of(ctx);
	struct queue *queue;

	if (fake->init_result < 0)
		return fake->init_result;
	queue = malloc(sizeof(*queue) + ctx->depth * sizeof(queue->entries[0]));
	if (!queue)
		return -ENOMEM;
	queue->fake = fake;
	queue->count = 0;
	ctx->backend_state = queue;
	pthread_mutex_lock(&fake->mutex);
	fake->contexts++;
	if (ctx->hosted)
		set_wake(fake, 0, ioctx_event(ctx));
	pthread_mutex_unlock(&fake->mutex);
	return 0;
}

static void
fake_ctx_fini(struct ioctx *ctx)
{
	struct queue *queue = ctx->backend_state;

	ck_assert_uint_eq(queue->count, 0);
	pthread_mutex_lock(&queue->fake->mutex);
	queue->fake->contexts--;
	if (ctx->hosted)
		set_wake(queue->fake, ioctx_event(ctx), 0);
	pthread_mutex_unlock(&queue->fake->mutex);
	free(queue);
}

static void
assert_aligned(const struct backing *backing, const struct chunk *chunk)
{
	if (chunk->op == CHUNK_ALLOCATE) {
		ck_assert_uint_gt(chunk->length, 0);
		ck_assert_uint_eq(chunk->offset % backing->block_size, 0);
		ck_assert_uint_eq(chunk->length % backing->block_size, 0);
	}
	if (chunk->op != CHUNK_READ && chunk->op != CHUNK_WRITE)
		return;
	ck_assert_uint_gt(chunk->length, 0);
	ck_assert_uint_le(chunk->length, INT32_MAX);
	if (!chunk->direct)
		return;
	ck_assert_uint_eq(chunk->offset % backing->direct_align, 0);
	ck_assert_uint_eq(chunk->length % backing->direct_align, 0);
	ck_assert_uint_eq((uintptr_t)chunk->buffer % backing->memory_align, 0);
}

/* A change holds its range, with the whole blocks that it reads and writes back. */
static void
assert_range_held(const struct chunk *chunk)
{
	const struct io *io = chunk->io;
	uint64_t start = io->ctx->image->config.offset + chunk->start;

	/* For a part that is retried, the whole io holds the range (io_retry_part()). */
	if (chunk->op == CHUNK_SYNC || io->op == IO_READ || (io->care & IO_RETRIED))
		return;
	ck_assert(io->ranged);
	ck_assert_uint_le(io->range.start, start);
	ck_assert_uint_ge(io->range.end, start + chunk->bytes);
	if (chunk->reading)
		ck_assert_uint_ge(io->range.end - io->range.start, chunk->length);
}

static void
fake_queue(struct ioctx *ctx, struct chunk *chunk)
{
	struct queue *queue = ctx->backend_state;
	struct fake *fake = queue->fake;
	struct entry *entry = &queue->entries[queue->count];

	ck_assert_uint_lt(queue->count, ctx->depth);
	assert_aligned(&ctx->image->backing, chunk);
	assert_range_held(chunk);
	queue->count++;
	*entry = (struct entry){.chunk = chunk, .fresh = true};
	pthread_mutex_lock(&fake->mutex);
	if (fake->event_count < FAKE_EVENTS) {
		entry->event = &fake->events[fake->event_count++];
		*entry->event = (struct fake_event){
			.op = chunk->op,
			.direct = chunk->direct,
			.dsync = chunk->rw_flags & RWF_DSYNC,
			.dontcache = chunk->rw_flags & RWF_DONTCACHE,
			.mode = chunk->mode,
			.buffer = chunk->buffer,
			.offset = chunk->offset,
			.length = chunk->length,
		};
	}
	if (++fake->in_flight > fake->most_in_flight)
		fake->most_in_flight = fake->in_flight;
	pthread_cond_broadcast(&fake->released);
	pthread_mutex_unlock(&fake->mutex);
}

/* mutex held.  The fault that hits this chunk, or NULL. */
static const struct fake_fault *
next_fault(struct fake *fake, enum chunk_op op)
{
	for (unsigned int i = 0; i < FAKE_FAULTS; i++) {
		struct fake_fault *fault = &fake->faults[i];

		if (fault->op != op || fault->times == 0)
			continue;
		if (fault->skip > 0) {
			fault->skip--;
			continue;
		}
		fault->times--;
		return fault;
	}
	return NULL;
}

/* mutex held.  The bytes that the chunk moves, or its error: as fake_fault.result. */
static int64_t
outcome(struct fake *fake, const struct backing *backing, const struct chunk *chunk)
{
	const struct fake_fault *fault = next_fault(fake, chunk->op);
	/* With direct I/O, less than a block means the end of the file. */
	uint64_t least = chunk->direct ? backing->direct_align : 1;

	if (fault)
		return fault->result;
	if (chunk->length > least && fake->shorten && next_random(fake) % fake->shorten == 0)
		return (int64_t)(least + next_random(fake) % (chunk->length - least));
	return (int64_t)chunk->length;
}

/* The effect of every mode that the engine uses; a memory file does not support all of them. */
static int
zero_range(int fd, const struct chunk *chunk)
{
	static const char zeroes[4096];

	for (uint64_t done = 0; done < chunk->length;) {
		uint64_t left = chunk->length - done;
		size_t length = left < sizeof(zeroes) ? (size_t)left : sizeof(zeroes);

		if (pwrite(fd, zeroes, length, (off_t)(chunk->offset + done)) != (ssize_t)length)
			return -EIO;
		done += length;
	}
	return 0;
}

static int
carry_out(const struct backing *backing, const struct chunk *chunk, int64_t outcome)
{
	size_t length = (uint64_t)outcome < chunk->length ? (size_t)outcome : (size_t)chunk->length;
	ssize_t r = 0;

	if (outcome < 0)
		return (int)outcome;
	if (chunk->op == CHUNK_READ)
		r = pread(backing->fd, chunk->buffer, length, (off_t)chunk->offset);
	else if (chunk->op == CHUNK_WRITE)
		r = length ? pwrite(backing->fd, chunk->buffer, length, (off_t)chunk->offset) : 0;
	else if (chunk->op == CHUNK_ALLOCATE)
		return zero_range(backing->fd, chunk);
	return r < 0 ? -errno : (int)r;
}

static bool
is_held(const struct fake *fake, const struct entry *entry)
{
	return fake->held & (1u << entry->chunk->op) && entry->event && !entry->event->released;
}

/* mutex held. A chunk that may complete now, or NULL. */
static struct entry *
pick(struct fake *fake, struct queue *queue)
{
	unsigned int first =
		fake->order == FAKE_RANDOM && queue->count ? next_random(fake) % queue->count : 0;

	for (unsigned int i = 0; i < queue->count; i++) {
		unsigned int at = (first + i) % queue->count;
		struct entry *entry;

		if (fake->order == FAKE_LAST_COME)
			at = queue->count - 1 - at;
		entry = &queue->entries[at];
		if (!entry->fresh && !is_held(fake, entry))
			return entry;
	}
	return NULL;
}

/* mutex held; unlocked during the call of chunk_done(). */
static void
complete(struct ioctx *ctx, struct queue *queue, struct entry *entry)
{
	struct fake *fake = queue->fake;
	struct entry copy = *entry;
	int64_t moves = outcome(fake, &ctx->image->backing, copy.chunk);
	int result;

	for (struct entry *end = &queue->entries[--queue->count]; entry < end; entry++)
		entry[0] = entry[1];
	pthread_mutex_unlock(&fake->mutex);
	result = carry_out(&ctx->image->backing, copy.chunk, moves);
	pthread_mutex_lock(&fake->mutex);
	fake->in_flight--;
	if (copy.event) {
		copy.event->result = result;
		copy.event->done = true;
		copy.event->done_as = fake->done_count;
	}
	fake->done_count++;
	pthread_mutex_unlock(&fake->mutex);
	chunk_done(ctx, copy.chunk, result);
	pthread_mutex_lock(&fake->mutex);
}

/* mutex held. */
static void
wait_for_release(struct fake *fake)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += PATIENCE;
	ck_assert_msg(pthread_cond_timedwait(&fake->released, &fake->mutex, &until) == 0,
		      "a run() waits for a chunk that the test holds");
}

/* mutex held.  Whether chunks may complete that have not: an event loop must run the context again.
 */
static bool
has_more(const struct fake *fake, const struct queue *queue)
{
	for (unsigned int i = 0; i < queue->count; i++)
		if (!is_held(fake, &queue->entries[i]))
			return true;
	return false;
}

static int
fake_run(struct ioctx *ctx, unsigned int min)
{
	struct queue *queue = ctx->backend_state;
	struct fake *fake = queue->fake;
	unsigned int completed = 0;
	struct entry *entry;

	pthread_mutex_lock(&fake->mutex);
	if (fake->run_errors > 0) {
		fake->run_errors--;
		pthread_mutex_unlock(&fake->mutex);
		return -EIO;
	}
	if (min > 0)
		fake->waits++;
	for (unsigned int i = 0; i < queue->count; i++)
		queue->entries[i].fresh = false;
	for (;;) {
		if (fake->order == FAKE_RANDOM && completed >= min && next_random(fake) % 3 == 0)
			break;
		if (fake->order == FAKE_ONE_BY_ONE && completed >= min)
			break;
		entry = pick(fake, queue);
		if (entry) {
			complete(ctx, queue, entry);
			completed++;
		} else if (completed < min) {
			wait_for_release(fake);
		} else {
			break;
		}
	}
	if (ctx->hosted && has_more(fake, queue))
		eventfd_write(ioctx_event(ctx), 1);
	pthread_mutex_unlock(&fake->mutex);
	return 0;
}

void
fake_init(struct fake *fake)
{
	*fake = (struct fake){
		.backend =
			{
				.name = "fake",
				.dsync = true,
				.probe = fake_probe,
				.init = fake_ctx_init,
				.fini = fake_ctx_fini,
				.queue = fake_queue,
				.run = fake_run,
			},
		.random = 20261121,
	};
	pthread_mutex_init(&fake->mutex, NULL);
	pthread_cond_init(&fake->released, NULL);
}

void
fake_fini(struct fake *fake)
{
	ck_assert_uint_eq(fake->in_flight, 0);
	ck_assert_uint_eq(fake->contexts, 0);
	pthread_cond_destroy(&fake->released);
	pthread_mutex_destroy(&fake->mutex);
}

void
fake_fault(struct fake *fake, enum chunk_op op, unsigned int skip, unsigned int times, int result)
{
	unsigned int i = 0;

	pthread_mutex_lock(&fake->mutex);
	while (fake->faults[i].times > 0) {
		i++;
		ck_assert_uint_lt(i, FAKE_FAULTS);
	}
	fake->faults[i] = (struct fake_fault){op, skip, times, result};
	pthread_mutex_unlock(&fake->mutex);
}

void
fake_release(struct fake *fake, unsigned int event)
{
	pthread_mutex_lock(&fake->mutex);
	ck_assert_uint_lt(event, fake->event_count);
	fake->events[event].released = true;
	wake_hosts(fake);
	pthread_mutex_unlock(&fake->mutex);
}

void
fake_release_all(struct fake *fake)
{
	pthread_mutex_lock(&fake->mutex);
	fake->held = 0;
	wake_hosts(fake);
	pthread_mutex_unlock(&fake->mutex);
}

struct fake_event
fake_look(struct fake *fake, unsigned int event)
{
	struct fake_event copy;

	pthread_mutex_lock(&fake->mutex);
	ck_assert_uint_lt(event, fake->event_count);
	copy = fake->events[event];
	pthread_mutex_unlock(&fake->mutex);
	return copy;
}

/* mutex held. */
static unsigned int
count_events(const struct fake *fake, enum chunk_op op)
{
	unsigned int count = 0;

	ck_assert_uint_lt(fake->event_count, FAKE_EVENTS);
	for (unsigned int i = 0; i < fake->event_count; i++)
		count += fake->events[i].op == op;
	return count;
}

unsigned int
fake_count(struct fake *fake, enum chunk_op op)
{
	unsigned int count;

	pthread_mutex_lock(&fake->mutex);
	count = count_events(fake, op);
	pthread_mutex_unlock(&fake->mutex);
	return count;
}

void
fake_await(struct fake *fake, enum chunk_op op)
{
	pthread_mutex_lock(&fake->mutex);
	while (count_events(fake, op) == 0)
		wait_for_release(fake);
	pthread_mutex_unlock(&fake->mutex);
}

unsigned int
fake_in_flight(struct fake *fake, unsigned int least)
{
	unsigned int count;

	pthread_mutex_lock(&fake->mutex);
	while (fake->in_flight < least)
		wait_for_release(fake);
	count = fake->in_flight;
	pthread_mutex_unlock(&fake->mutex);
	return count;
}

void
fake_forget(struct fake *fake)
{
	pthread_mutex_lock(&fake->mutex);
	ck_assert_uint_eq(fake->in_flight, 0);
	fake->event_count = fake->done_count = fake->most_in_flight = 0;
	for (unsigned int i = 0; i < FAKE_FAULTS; i++)
		fake->faults[i].times = 0;
	pthread_mutex_unlock(&fake->mutex);
}
