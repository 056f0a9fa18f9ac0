/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ways to the kernel, behind one table of functions.  A backend translates: it puts a chunk
 * into its SQE or iocb and hands back the kernel's result.  Every decision (short transfers,
 * errors, alignment, order) is io.c's.
 */
#ifndef ENGINE_BACKEND_BACKEND_H
#define ENGINE_BACKEND_BACKEND_H

#include "engine/backing/backing.h"
#include "engine/image_config.h"
#include "engine/io/chunk.h"

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

extern const struct backend backend_uring;
extern const struct backend backend_polled;
extern const struct backend backend_aio;
extern const struct backend backend_calls;
/* `threads` for an event loop, which must not block: the calls are made by threads of the context.
 * Where the image is in memory, the loop makes them itself. */
extern const struct backend backend_threads;

/*
 * The backend for what the user chose.  `direct` tells whether direct I/O is on.  Returns 0 and
 * *backend, with reasons ("" or why a better one isn't used) for engine and polling; or -errno and
 * *error, a sentence that names the option (caller frees).
 */
int
backend_choose(const struct image_config *config, const struct backing *backing, bool direct,
	       const struct backend **backend, char engine_reason[REASON_MAX],
	       char poll_reason[REASON_MAX], char **error);

/* Whether this machine allows an engine (not ENGINE_AUTO).  0, or -errno with the reason. */
int
backend_works(enum engine_choice engine, char reason[REASON_MAX]);

/* Results arrive here (io.c): bytes moved, 0, or -errno. */
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
