/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A chunk is one system operation in flight: all or a part of an io. chunk_plan.c decides what the
 * chunk does, and a backend only carries it to the kernel.
 */
#ifndef ENGINE_IO_CHUNK_H
#define ENGINE_IO_CHUNK_H

#include "engine/backing/backing.h"
#include "engine/backing/dontcache.h"
#include "engine/completion.h"
#include "engine/io/helpers.h"
#include "engine/layer/layer.h"

#include <stdbool.h>
#include <stdint.h>

/* The most bytes that one chunk moves through its bounce buffer. Larger requests are split, and
 * their chunks are in flight together. */
#define CHUNK_SIZE (128u << 10)

struct io;
struct ioctx;

enum chunk_op {
	CHUNK_READ,
	CHUNK_WRITE,
	CHUNK_SYNC,     /* fdatasync */
	CHUNK_ALLOCATE, /* fallocate(mode) */
};

struct chunk {
	/* Set by plan_chunk(); a backend puts these into its SQE or iocb. */
	enum chunk_op op;
	bool direct;     /* uses the direct descriptor, else the buffered one */
	uint8_t below;   /* READ: the file below a layer that has the bytes (layers_run()); 0: it is
			    the backing's own */
	int rw_flags;    /* READ, WRITE: RWF_DSYNC, RWF_DONTCACHE */
	int mode;        /* ALLOCATE: fallocate()'s mode */
	void *buffer;    /* READ, WRITE */
	uint64_t offset; /* in the backing, in bytes */
	uint64_t length; /* in bytes; READ, WRITE: at most INT32_MAX */

	/* The backend's, from its queue() until it calls chunk_done(). */
	union {
		struct {
			struct completion completion;
			struct chunk *next;
		};
		struct helper_job job; /* while a helper executes the chunk: see chunk_lend() */
	};
	int result;

	/* For plan_chunk() and chunk_done(). */
	struct io *io;
	char *bounce;          /* this chunk's part of the context's arena, CHUNK_SIZE bytes */
	int bounce_place;      /* where .bounce is registered with a ring: see uring.c */
	char *payload;         /* the caller's bytes that this chunk moves; NULL for zeroes */
	uint64_t start;        /* where .payload belongs in the image's window, in bytes */
	uint64_t bytes;        /* length of .payload */
	bool bounced;          /* .buffer is .bounce */
	bool reading;          /* the reading half of a read-modify-write */
	unsigned int attempts; /* how often the kernel asked us to try again */
};

/* A backend calls this to hand a chunk back. `result` is the number of bytes moved, 0, or -errno.
 * The chunk may be queued again, or its io completed, before the call returns. */
void
chunk_done(struct ioctx *ctx, struct chunk *chunk, int result);

/* The same, for a chunk whose .completion is called. */
void
chunk_completed(struct completion *completion, int result);

/* Hands a queued chunk to a helper thread, which executes it with a plain system call. Only for
 * hosted contexts. A later ioctx_run() calls chunk_done(). */
void
chunk_lend(struct ioctx *ctx, struct chunk *chunk);

/* Returns whether the chunk starts a write-back: the kernel may wait for room in the disk's queue
 * before it takes the chunk, and does not ask whether it may wait. */
static inline bool
chunk_starts_write_back(const struct chunk *chunk)
{
	return chunk->op == CHUNK_WRITE && (chunk->rw_flags & RWF_DONTCACHE);
}

/* Returns the descriptor that the chunk uses. */
static inline int
chunk_fd(const struct backing *backing, const struct chunk *chunk)
{
	if (chunk->below)
		return layers_fd(backing->layers, chunk->below);
	return chunk->direct ? backing->direct_fd : backing->fd;
}

/* Executes a chunk at once with a plain system call, which may block. Returns a result for
 * chunk_done(): bytes moved, 0, or -errno. */
int
chunk_execute(const struct backing *backing, const struct chunk *chunk);

#endif
