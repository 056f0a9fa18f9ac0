/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A way to the kernel, as the rest of the engine sees it: a table of functions; engine/backend/ has
 * the ways that there are.  A backend translates: it puts a chunk into its SQE or iocb and hands
 * back the kernel's result.  Every decision (short transfers, errors, alignment, order) is made
 * above it.
 */
#ifndef ENGINE_IO_BACKEND_H
#define ENGINE_IO_BACKEND_H

#include "engine/reason.h"

#include <stdbool.h>

struct backing;
struct chunk;
struct ioctx;

struct backend {
	const char *name; /* "io_uring", as the user writes it */
	bool polled; /* waits by polling the device; direct reads and writes only take its fast way
		      */
	bool serial; /* one chunk after another: splitting a request gains nothing */
	bool dsync;  /* honours chunk.dsync */
	bool shares_ring;  /* hosted by an event loop with a ring, it uses that one */
	bool lone_by_call; /* a lone chunk that its thread waits for is done faster by a plain
			      system call */

	/* Whether it works on this machine and, polled, on this backing. Returns 0, or -errno with
	 * the reason. Leaves nothing open: rings don't survive a fork. */
	int (*probe)(const struct backing *backing, char reason[REASON_MAX]);

	/* Sets ctx->backend_state (and ctx->registered).  0 or -errno. */
	int (*init)(struct ioctx *ctx);
	void (*fini)(struct ioctx *ctx);

	/* Makes now what it would make when it is needed; NULL: nothing is. */
	void (*reserve)(struct ioctx *ctx);

	/* Takes a chunk; at most ctx->depth are under way at once, so there is always room. */
	void (*queue)(struct ioctx *ctx, struct chunk *chunk);

	/* Hands everything queued to the kernel, waits until at least `min` chunks (of those under
	 * way) are complete, and calls chunk_done() for each that is.  Returns 0 or -errno; then
	 * nothing was lost, and it can be called again. */
	int (*run)(struct ioctx *ctx, unsigned int min);
};

#endif
