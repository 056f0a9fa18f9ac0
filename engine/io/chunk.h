/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A chunk is one system operation in flight: all or a part of an io.  io.c decides what it does;
 * a backend only carries it to the kernel.
 */
#ifndef ENGINE_IO_CHUNK_H
#define ENGINE_IO_CHUNK_H

#include "engine/completion.h"
#include "engine/io/helpers.h"

#include <stdbool.h>
#include <stdint.h>

/* Most bytes that one chunk moves through its bounce buffer. Larger requests are split, and the
 * parts are in flight together. */
#define CHUNK_SIZE (128u << 10)

struct backing;
struct io;
struct ioctx;

enum chunk_op {
	CHUNK_READ,
	CHUNK_WRITE,
	CHUNK_SYNC,     /* fdatasync */
	CHUNK_ALLOCATE, /* fallocate(mode) */
};

struct chunk {
	/* What a backend puts into its SQE or iocb. */
	enum chunk_op op;
	bool direct;     /* on the direct descriptor, else on the buffered one */
	bool registered; /* .buffer lies in the context's arena */
	bool dsync;      /* WRITE: RWF_DSYNC */
	int mode;        /* ALLOCATE: fallocate()'s mode */
	void *buffer;    /* READ, WRITE */
	uint64_t offset; /* in the backing, bytes */
	uint64_t length; /* bytes; READ, WRITE: at most INT32_MAX */

	/* The backend's, from queue() until it calls chunk_done(). */
	union {
		struct {
			struct completion completion;
			struct chunk *next;
		};
		struct helper_job job; /* while a helper has it: see chunk_lend() */
	};
	int result;

	/* io.c's. */
	struct io *io;
	char *bounce;          /* this chunk's part of the context's arena; CHUNK_SIZE bytes */
	char *payload;         /* the caller's bytes that this chunk moves, or NULL for zeroes */
	uint64_t start;        /* in the image's window: where .payload belongs */
	uint64_t bytes;        /* how many of them */
	bool bounced;          /* .buffer is .bounce */
	bool reading;          /* the reading half of a read-modify-write */
	unsigned int attempts; /* how often the kernel asked to try again */
};

/* A backend hands a chunk back with its result: bytes moved, 0, or -errno. */
void
chunk_done(struct ioctx *ctx, struct chunk *chunk, int result);

/* Has a helper of a hosted context carry a chunk that was queued out, by a plain system call.
 * chunk_done() follows in a later ioctx_run(). */
void
chunk_lend(struct ioctx *ctx, struct chunk *chunk);

/* Carries a chunk out at once, by a plain system call.  Returns what chunk_done() wants. */
int
chunk_execute(const struct backing *backing, const struct chunk *chunk);

#endif
