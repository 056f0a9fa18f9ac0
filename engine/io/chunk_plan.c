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

/* The most bytes of one read or write that needs no bounce buffer. The kernel's own limit is 2 GiB
 * less a page (MAX_RW_COUNT). */
#define WHOLE (1u << 30)

/* The same limit when an event loop makes the call itself, for an image in memory: its other
 * clients wait during the call. */
#define HOSTED_WHOLE (1u << 20)

/* The most bytes of one fallocate(). A call cannot be stopped, but an io can be stopped between two
 * calls. */
#define ALLOCATE_MAX (UINT64_C(1) << 30)

/* The same limit in memory, where the call frees or zeroes every page, and other writers of the
 * file wait during the call. */
#define ALLOCATE_MEMORY_MAX (UINT64_C(8) << 20)

/* The shortest write, in bytes, that drops its own pages (RWF_DONTCACHE). The kernel starts the
 * write-back of such a write at once, so small writes would no longer come together in one. */
#define DONTCACHE_WRITE (128u << 10)

static uint64_t
plan_minimum(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t
plan_round_down(uint64_t n, uint64_t align)
{
	return n & ~(align - 1);
}

static uint64_t
plan_round_up(uint64_t n, uint64_t align)
{
	return plan_round_down(n + align - 1, align);
}

/* Uses the caller's buffer directly. Splitting pays only if the parts proceed in parallel. The page
 * cache works best with large requests, and so does its read-ahead. */
static void
plan_straight(const struct image *image, const struct ioctx *ctx, struct chunk *chunk,
	      uint64_t bytes, unsigned int align)
{
	bool serial = ctx->backend->serial;
	uint64_t most = chunk->direct && !serial ? CHUNK_SIZE : WHOLE;

	if (serial && ctx->hosted)
		most = HOSTED_WHOLE;

	chunk->bytes = plan_round_down(plan_minimum(bytes, most), align);
	chunk->buffer = chunk->payload;
	chunk->length = chunk->bytes;
	chunk->offset = image->config.offset + chunk->start;
}

/* Uses the bounce buffer for whole blocks. The first `before` bytes of the first block are not the
 * caller's. */
static void
plan_bounced(const struct image *image, struct ioctx *ctx, struct chunk *chunk, uint64_t bytes,
	     unsigned int align)
{
	uint64_t before = chunk->start & (align - 1);
	uint64_t most = CHUNK_SIZE - before;

	chunk->bounced = true;
	chunk->buffer = chunk->bounce;
	chunk->offset = image->config.offset + chunk->start - before;
	if (chunk->op == CHUNK_WRITE && (before || bytes < align)) {
		most = align - before;
		chunk->reading = true;
		chunk->op = CHUNK_READ;
		counter_add(&ctx->counters, COUNTER_READ_MODIFY_WRITES, 1);
	} else if (chunk->op == CHUNK_WRITE) {
		bytes = plan_round_down(bytes, align);
	}
	chunk->bytes = plan_minimum(bytes, most);
	chunk->length = plan_round_up(before + chunk->bytes, align);
	if (chunk->op == CHUNK_WRITE && chunk->payload)
		memcpy(chunk->bounce, chunk->payload, chunk->bytes);
	else if (chunk->op == CHUNK_WRITE)
		memset(chunk->bounce, 0, chunk->bytes);
	counter_add(&ctx->counters, COUNTER_BOUNCED, 1);
}

/* Returns the flags of a transfer through the page cache. A transfer with RWF_DONTCACHE covers
 * whole pages, since the next one would have to read a shared page again. */
static int
plan_cache_flags(const struct image *image, const struct chunk *chunk)
{
	uint64_t mask = image->backing.cache_block - 1;

	if (!image->sweeper || !atomic_load_explicit(&image->dontcache, memory_order_relaxed) ||
	    ((chunk->offset | chunk->length) & mask) ||
	    (chunk->op == CHUNK_WRITE && chunk->length < DONTCACHE_WRITE))
		return 0;
	return RWF_DONTCACHE;
}

/* Plans a read or write of the next `bytes` bytes of the io, or of as many as one chunk takes. */
static void
plan_transfer(const struct image *image, struct io *io, struct chunk *chunk, uint64_t bytes)
{
	struct ioctx *ctx = io->ctx;
	unsigned int align = 1;
	bool straight;

	chunk->op = io->op == IO_READ ? CHUNK_READ : CHUNK_WRITE;
	chunk->payload = io->op == IO_ZERO ? NULL : (char *)io->buffer + io->issued;
	chunk->direct = atomic_load_explicit(&image->direct, memory_order_relaxed);
	/* The last block of a file with an odd size goes through the page cache; the bytes before
	 * it make a chunk of their own. */
	if (chunk->direct) {
		uint64_t end = atomic_load_explicit(&image->direct_end, memory_order_relaxed);
		uint64_t place = image->config.offset + chunk->start;

		chunk->direct = place < end;
		if (chunk->direct)
			bytes = plan_minimum(bytes, end - place);
	}
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
	/* A single write can carry its own sync; after several writes, one sync is cheaper than a
	 * sync for each. In the page cache, we must tell a failed sync from a failed write, because
	 * only a failed sync has lost data of other writes (chunk_fail_sync()). */
	if (!chunk->direct) {
		chunk->rw_flags = plan_cache_flags(image, chunk);
	} else if ((io->flags & IO_FUA) && chunk->op == CHUNK_WRITE && chunk->bytes == io->length &&
		   ctx->backend->dsync) {
		chunk->rw_flags = RWF_DSYNC;
		io->durable = true;
	}
}

/* Returns how many of the next bytes of a ZERO must be written because no fallocate() can zero
 * them: the bytes before or after the whole blocks, or all that are left. 0: fallocate() comes
 * next. */
static uint64_t
plan_zero_by_writing(const struct image *image, const struct io *io, int mode)
{
	uint64_t left = io->length - io->issued;
	uint64_t align = image->backing.block_size;
	uint64_t place = image->config.offset + io->offset + io->issued;
	uint64_t edge = plan_round_up(place, align) - place;

	if (mode < 0)
		return left;
	if (edge)
		return plan_minimum(edge, left);
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
		io->issued = io->length; /* a discard is advice, which we cannot follow here */
		io->care |= IO_MARKED;   /* and has changed nothing */
		return false;
	}
	write = io->op == IO_ZERO ? plan_zero_by_writing(image, io, mode) : 0;
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
	chunk->bytes = chunk->length =
		plan_round_down(plan_minimum(left, most), image->backing.block_size);
	return true;
}

bool
plan_chunk(const struct image *image, struct io *io, struct chunk *chunk)
{
	*chunk = (struct chunk){
		.bounce = chunk->bounce,
		.bounce_place = chunk->bounce_place,
		.io = io,
		.start = io->offset + io->issued,
	};
	if (io->syncing) {
		/* Always through the buffered descriptor. The kernel reports lost data once on each
		 * open file, and a direct write that carries its own sync may be the one that
		 * receives the report for the direct descriptor. */
		chunk->op = CHUNK_SYNC;
		io->syncing = false;
		io->durable = true;
	} else if (io->op == IO_DISCARD || io->op == IO_ZERO) {
		if (!plan_space(image, io, chunk))
			return false;
	} else {
		plan_transfer(image, io, chunk, io->length - io->issued);
	}
	io->issued += chunk->bytes;
	return true;
}

void
plan_read(const struct image *image, struct io *io, struct chunk *chunk,
	  const struct plan_place *place)
{
	*chunk = (struct chunk){
		.below = place->below,
		.bounce = chunk->bounce,
		.bounce_place = chunk->bounce_place,
		.io = io,
		.start = io->offset + io->issued,
	};
	if (place->below) {
		chunk->op = CHUNK_READ;
		chunk->payload = (char *)io->buffer + io->issued;
		plan_straight(image, io->ctx, chunk, place->bytes, 1);
		chunk->offset = place->offset;
	} else {
		plan_transfer(image, io, chunk, place->bytes);
	}
	io->issued += chunk->bytes;
}
