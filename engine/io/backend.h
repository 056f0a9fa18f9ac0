/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A way to the kernel, as the rest of the engine sees it: a table of functions. engine/backend/ has
 * one such table for each way. A backend only translates: it puts a chunk into an SQE or iocb and
 * hands the kernel's result back. The layers above it decide everything else: short transfers,
 * errors, alignment, order.
 */
#ifndef ENGINE_IO_BACKEND_H
#define ENGINE_IO_BACKEND_H

#include "engine/backing/backing.h"

#include <stdbool.h>

struct chunk;
struct ioctx;

struct backend {
	const char *name; /* "io_uring", as the user writes it */
	bool polled; /* polls the device for completions; only direct reads and writes take its fast
			path */
	bool serial; /* executes one chunk after another: splitting a request gains nothing */
	bool dsync;  /* honours RWF_DSYNC of a chunk */
	bool shares_ring;  /* on an event loop that has a ring, uses the loop's ring */
	bool only;         /* no other backend can take its place */
	bool lone_by_call; /* if a thread waits for a single chunk, a plain system call is faster */

	/* Tests whether the backend works on this machine and, if it polls, on this backing.
	 * Returns 0, or -errno with the reason. Leaves nothing open, because rings do not survive a
	 * fork. NULL: it is not among those to choose from. */
	int (*probe)(const struct backing *backing, char reason[REASON_MAX]);

	/* Sets ctx->backend_state, and ctx->unregistered if it registers memory. Returns 0 or
	 * -errno; on failure, fini() must not be called. */
	int (*init)(struct ioctx *ctx);
	/* Frees what init() made. No chunk may be in flight. */
	void (*fini)(struct ioctx *ctx);

	/* Registers the memory now that the backend would otherwise register when it is used. NULL:
	 * there is none. */
	void (*reserve)(struct ioctx *ctx);

	/* Takes a chunk. At most ctx->depth chunks are in flight, so there is always room. */
	void (*queue)(struct ioctx *ctx, struct chunk *chunk);

	/* Hands all queued chunks to the kernel, waits until at least `min` of the chunks in flight
	 * are complete, and calls chunk_done() for each complete one. Returns 0 or -errno. After an
	 * error no chunk is lost, and run() can be called again. */
	int (*run)(struct ioctx *ctx, unsigned int min);
};

#endif
