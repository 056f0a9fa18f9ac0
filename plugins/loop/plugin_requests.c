/* SPDX-License-Identifier: BSD-3-Clause */
#include "plugins/loop/plugin_requests.h"

#include "engine/context/ioctx.h"
#include "engine/context/pool.h"
#include "engine/image/extent.h"
#include "engine/io/io.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* nbdkit -D loop.requests=1 logs each request and its result. */
NBDKIT_DLL_PUBLIC int loop_debug_requests;

/* Runs on the thread of nbdkit that has the request. The thread gets the same context each time. */
static int
request_execute(void *handle, struct io *io)
{
	struct connection *connection = handle;
	struct image *image = connection->export->image;
	struct ioctx *ctx = pool_take(image);
	int r;

	if (!ctx) {
		nbdkit_error("%s failed: no I/O context can be made; see the warning before this",
			     io_op_name(io->op));
		errno = ENOMEM;
		return -1;
	}
	r = ioctx_execute(ctx, io);
	pool_give(image, ctx);
	if (loop_debug_requests)
		nbdkit_debug("loop: %s offset %" PRIu64 " length %" PRIu64 " flags 0x%x: %s",
			     io_op_name(io->op), io->offset, io->length, io->flags,
			     r < 0 ? strerror(-r) : "done");
	if (r == 0)
		return 0;
	errno = -r;
	return -1;
}

static unsigned int
engine_flags(uint32_t flags)
{
	return (flags & NBDKIT_FLAG_FUA ? IO_FUA : 0) |
	       (flags & NBDKIT_FLAG_MAY_TRIM ? IO_MAY_UNMAP : 0) |
	       (flags & NBDKIT_FLAG_FAST_ZERO ? IO_FAST : 0);
}

int
loop_pread(void *handle, void *buffer, uint32_t count, uint64_t offset, uint32_t flags)
{
	struct io io = {.op = IO_READ, .offset = offset, .length = count, .buffer = buffer};

	(void)flags;
	return request_execute(handle, &io);
}

int
loop_pwrite(void *handle, const void *buffer, uint32_t count, uint64_t offset, uint32_t flags)
{
	struct io io = {
		.op = IO_WRITE,
		.flags = engine_flags(flags),
		.offset = offset,
		.length = count,
		.buffer = (void *)(uintptr_t)buffer, /* the engine only reads it */
	};

	return request_execute(handle, &io);
}

int
loop_flush(void *handle, uint32_t flags)
{
	struct io io = {.op = IO_FLUSH};

	(void)flags;
	return request_execute(handle, &io);
}

int
loop_trim(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	struct io io = {
		.op = IO_DISCARD, .flags = engine_flags(flags), .offset = offset, .length = count};

	return request_execute(handle, &io);
}

/* Fails with EOPNOTSUPP only for FAST_ZERO, because nbdkit before 1.44.1 writes too few zeroes when
 * it writes them itself. */
int
loop_zero(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	struct io io = {
		.op = IO_ZERO, .flags = engine_flags(flags), .offset = offset, .length = count};

	return request_execute(handle, &io);
}

int
loop_cache(void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
	struct connection *connection = handle;
	int r = image_cache(connection->export->image, offset, count);

	(void)flags;
	if (r == 0)
		return 0;
	nbdkit_error("cache of %" PRIu32 " bytes at offset %" PRIu64 " failed: %s", count, offset,
		     strerror(-r));
	errno = -r;
	return -1;
}

static int
request_add_extent(void *data, uint64_t offset, uint64_t length, bool hole)
{
	uint32_t type = hole ? NBDKIT_EXTENT_HOLE | NBDKIT_EXTENT_ZERO : 0;

	/* nbdkit has set errno. */
	return nbdkit_add_extent(data, offset, length, type) < 0 ? -errno : 0;
}

int
loop_extents(void *handle, uint32_t count, uint64_t offset, uint32_t flags,
	     struct nbdkit_extents *extents)
{
	struct connection *connection = handle;
	int r = extents_visit(connection->export->image, offset, count, flags & NBDKIT_FLAG_REQ_ONE,
			      request_add_extent, extents);

	if (r == 0)
		return 0;
	nbdkit_error("extents of %" PRIu32 " bytes at offset %" PRIu64 " failed: %s", count, offset,
		     strerror(-r));
	errno = -r;
	return -1;
}
