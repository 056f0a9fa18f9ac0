/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/io/chunk_plan.h"

#include "engine/io/backend.h"
#include "engine/io/chunk.h"
#include "engine/io/image_state.h"
#include "engine/io/io.h"
#include "engine/io/ioctx_state.h"
#include "engine/io/space.h"

#include <errno.h>
#include <string.h>

/* Most bytes of one read or write that needs no bounce buffer: the kernel's own limit is 2 GiB less
 * a page (MAX_RW_COUNT). */
#define WHOLE (1u << 30)

/* The same of an event loop that makes the call itself, for an image in memory: other clients wait
 * meanwhile. */
#define HOSTED_WHOLE (1u << 20)

/* Most bytes of one fallocate(), which can't be stopped: an io is, between two. */
#define ALLOCATE_MAX (UINT64_C(1) << 30)

/* The same in memory, where it takes as long as freeing or zeroing all its pages does: who writes
 * to the file waits meanwhile. */
#define ALLOCATE_MEMORY_MAX (UINT64_C(8) << 20)

static uint64_t
minimum(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t
round_down(uint64_t n, uint64_t align)
{
	return n & ~(align - 1);
}

static uint64_t
round_up(uint64_t n, uint64_t align)
{
	return round_down(n + align - 1, align);
}

bool
plan_has_more(const struct io *io, const struct chunk *chunk)
{
	/* Whether the rest has to be written is known only when fallocate() has answered. */
	return io->issued < io->length && chunk->op != CHUNK_ALLOCATE;
}

/* By the buffered descriptor always: each is told once of data that was lost, and a direct write
 * that carries its own sync may be who is told for the other one. */
static void
plan_sync(struct io *io, struct chunk *chunk)
{
	chunk->op = CHUNK_SYNC;
	io->syncing = false;
	io->durable = true;
}

/* The caller's buffer as it is.  Splitting pays only where parts of it proceed together; the page
 * cache likes large requests, and reads ahead best when it sees one. */
static void
plan_straight(const struct image *image, const struct ioctx *ctx, struct chunk *chunk,
	      uint64_t bytes, unsigned int align)
{
	bool serial = ctx->backend->serial;
	uint64_t most = chunk->direct && !serial ? CHUNK_SIZE : WHOLE;

	if (serial && ctx->hosted)
		most = HOSTED_WHOLE;

	chunk->bytes = round_down(minimum(bytes, most), align);
	chunk->buffer = chunk->payload;
	chunk->length = chunk->bytes;
	chunk->offset = image->config.offset + chunk->start;
}

/* Through the bounce buffer: whole blocks, with `before` bytes in front that aren't the caller's.
 */
static void
plan_bounced(const struct image *image, struct ioctx *ctx, struct chunk *chunk, uint64_t bytes,
	     unsigned int align)
{
	uint64_t before = chunk->start & (align - 1);
	uint64_t most = CHUNK_SIZE - before;

	chunk->bounced = true;
	chunk->registered = chunk < ctx->chunks + ctx->registered;
	chunk->buffer = chunk->bounce;
	chunk->offset = image->config.offset + chunk->start - before;
	if (chunk->op == CHUNK_WRITE && (before || bytes < align)) {
		most = align - before;
		chunk->reading = true;
		chunk->op = CHUNK_READ;
		counter_add(&ctx->counters, COUNTER_READ_MODIFY_WRITES, 1);
	} else if (chunk->op == CHUNK_WRITE) {
		bytes = round_down(bytes, align);
	}
	chunk->bytes = minimum(bytes, most);
	chunk->length = round_up(before + chunk->bytes, align);
	if (chunk->op == CHUNK_WRITE && chunk->payload)
		memcpy(chunk->bounce, chunk->payload, chunk->bytes);
	else if (chunk->op == CHUNK_WRITE)
		memset(chunk->bounce, 0, chunk->bytes);
	counter_add(&ctx->counters, COUNTER_BOUNCED, 1);
}

/* The last block of a file with an odd size is for the page cache; what comes before it is a chunk
 * of its own. */
static uint64_t
plan_end(const struct image *image, struct chunk *chunk, uint64_t bytes)
{
	uint64_t end = atomic_load_explicit(&image->direct_end, memory_order_relaxed);
	uint64_t place = image->config.offset + chunk->start;

	chunk->direct = place < end;
	return chunk->direct ? minimum(bytes, end - place) : bytes;
}

/* `bytes` is how many of the next bytes of the io are to be read or written. */
static void
plan_transfer(const struct image *image, struct io *io, struct chunk *chunk, uint64_t bytes)
{
	struct ioctx *ctx = io->ctx;
	unsigned int align = 1;
	bool straight;

	chunk->op = io->op == IO_READ ? CHUNK_READ : CHUNK_WRITE;
	chunk->payload = io->op == IO_ZERO ? NULL : (char *)io->buffer + io->issued;
	chunk->direct = atomic_load_explicit(&image->direct, memory_order_relaxed);
	if (chunk->direct)
		bytes = plan_end(image, chunk, bytes);
	straight = chunk->payload != NULL;
	if (chunk->direct) {
		align = image->backing.direct_align;
		straight = straight && !(chunk->start & (align - 1)) && bytes >= align &&
			   !((uintptr_t)chunk->payload & (image->backing.memory_align - 1));
	}
	if (straight)
		plan_straight(image, ctx, chunk, bytes, align);
	else
		plan_bounced(image, ctx, chunk, bytes, align);
	/* One write can make itself durable; after several, one sync is cheaper than a sync of
	 * each.  In the page cache, the sync must be told from the write: only a failed sync has
	 * lost data of other writes (fail_sync()). */
	if ((io->flags & IO_FUA) && chunk->op == CHUNK_WRITE && chunk->bytes == io->length &&
	    chunk->direct && ctx->backend->dsync) {
		chunk->dsync = true;
		io->durable = true;
	}
}

/* A part of a ZERO that no fallocate() can do: before or after the whole blocks, or all that is
 * left. */
static uint64_t
zero_by_writing(const struct image *image, const struct io *io, int mode)
{
	uint64_t left = io->length - io->issued;
	uint64_t align = space_align(image);
	uint64_t place = image->config.offset + io->offset + io->issued;
	uint64_t edge = round_up(place, align) - place;

	if (mode < 0)
		return left;
	if (edge)
		return minimum(edge, left);
	return left < align ? left : 0;
}

static bool
plan_space(const struct image *image, struct io *io, struct chunk *chunk)
{
	uint64_t left = io->length - io->issued;
	uint64_t most = image->backing.in_memory ? ALLOCATE_MEMORY_MAX : ALLOCATE_MAX;
	int mode = space_mode(image, io, &io->attempt);
	uint64_t write;

	if (mode < 0 && io->op == IO_DISCARD) {
		io->issued = io->length; /* advice that can't be taken */
		return false;
	}
	write = io->op == IO_ZERO ? zero_by_writing(image, io, mode) : 0;
	if (write && (io->flags & IO_FAST)) {
		io->result = -EOPNOTSUPP;
		return false;
	}
	if (write) {
		plan_transfer(image, io, chunk, write);
		return true;
	}
	chunk->op = CHUNK_ALLOCATE;
	chunk->mode = mode;
	chunk->offset = image->config.offset + chunk->start;
	chunk->bytes = chunk->length = round_down(minimum(left, most), space_align(image));
	return true;
}

bool
plan_chunk(const struct image *image, struct io *io, struct chunk *chunk)
{
	*chunk = (struct chunk){
		.bounce = chunk->bounce,
		.io = io,
		.start = io->offset + io->issued,
	};
	if (io->syncing)
		plan_sync(io, chunk);
	else if (io->op == IO_DISCARD || io->op == IO_ZERO) {
		if (!plan_space(image, io, chunk))
			return false;
	} else {
		plan_transfer(image, io, chunk, io->length - io->issued);
	}
	io->issued += chunk->bytes;
	return true;
}
