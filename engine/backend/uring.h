/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A context's io_uring: a ring of its own, or its share of the ring of an event loop. The two
 * descriptors of the image are registered files, and the memory of its chunks may be registered.
 */
#ifndef ENGINE_BACKEND_URING_H
#define ENGINE_BACKEND_URING_H

#include "engine/backend/ring.h"

struct chunk;
struct ioctx;

/* How many files a context registers. */
#define URING_FILES 2

struct uring {
	struct ring *ring; /* .own, or the event loop's */
	struct ring own;
	int registered; /* number of the first registered file; -1: none are registered */
	int files;      /* the same if all chunks use these; -1: chunks of a layer may not */
};

/*
 * Submits the only operation that is queued on a ring, and waits for it. A signal, or a
 * short lack of memory, says nothing about the machine, so it tries again. Returns the operation's
 * result, or -errno.
 */
int
uring_try_submission(struct io_uring *uring);

/*
 * Shares the ring of the context's event loop, or makes one with the flags IORING_SETUP_*.
 * Registers the image's files, if the ring has places for them, and with its own ring the context's
 * arena, so that the kernel maps the buffers once instead of for each operation. Returns how many
 * chunks' buffers, from the first, are registered: all of them, only the first if little memory may
 * be locked, or 0, which is logged once; or -errno if there can be no ring.
 */
int
uring_open(struct uring *uring, const struct ioctx *ctx, unsigned int flags);

/* Tells the context that the bounce buffers of its first `registered` chunks are registered with
 * every ring of its own, and where to read why not all of its memory is. */
void
uring_use(struct uring *uring, struct ioctx *ctx, unsigned int registered);

/* Unregisters files and bounce buffers, and frees a ring of the context's own. None of its chunks
 * may be in flight. */
void
uring_close(struct uring *uring, struct ioctx *ctx);

/*
 * Puts the chunk into the next SQE. A later run of the ring passes the result to chunk_done(). On
 * the ring of an event loop, a bounce buffer is registered when it is used for the first time,
 * since most contexts there use few or none, and registered memory is locked.
 */
void
uring_add(struct uring *uring, const struct ioctx *ctx, struct chunk *chunk);

#endif
