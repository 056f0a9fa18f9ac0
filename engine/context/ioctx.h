/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An I/O context: one exclusive way to the kernel (its ring or AIO context, its registered buffers,
 * its operations in flight), used by one thread at a time.
 */
#ifndef ENGINE_CONTEXT_IOCTX_H
#define ENGINE_CONTEXT_IOCTX_H

#include "engine/io/backend.h"
#include "engine/io/ioctx_state.h"

#include <stdbool.h>

struct helper_job;
struct image;
struct io;
struct ioctx;
struct ring;

/*
 * Makes a context for an image.  Where the image's backend can't be set up (out of descriptors or
 * memory), says so in the log and falls back on `threads`.  Returns 0 or -ENOMEM or -EMFILE.
 */
int
ioctx_new(struct image *image, struct ioctx **ctx);

/*
 * The same for an event loop, which never waits in ioctx_run() but for events of its own: `ring` is
 * the loop's, or NULL; io_uring shares it, other backends let it be.  The loop calls ioctx_run(ctx,
 * false) after it submitted operations, when ioctx_event() becomes readable (and has been read),
 * and again and again while ioctx_polls().
 */
int
ioctx_new_hosted(struct image *image, struct ring *ring, struct ioctx **ctx);

/* An eventfd: something completed, or another thread let go of a range. */
int
ioctx_event(const struct ioctx *ctx);

/* Something is under way that only asking again and again will complete. */
static inline bool
ioctx_polls(const struct ioctx *ctx)
{
	return ctx->backend->polled && ctx->queued > 0;
}

/* It polls, or operations wait for what has become free since the last ioctx_run(). */
static inline bool
ioctx_wants_run(const struct ioctx *ctx)
{
	return (ctx->waiting && ctx->idle_count > 0) || ioctx_polls(ctx);
}

/* No io is under way, so that it wants no run until one is submitted or its event is readable. */
static inline bool
ioctx_is_idle(const struct ioctx *ctx)
{
	return ctx->unfinished == 0;
}

/*
 * Has a hosted context's helper do something that can wait for a file system.  job->done() is
 * called in a later ioctx_run(), for which the context's event becomes readable.
 */
void
ioctx_help(struct ioctx *ctx, struct helper_job *job);

/* Touches the buffers, so that there is memory behind them, and starts the threads that it may
 * need.  Nothing may use them yet. */
void
ioctx_populate(struct ioctx *ctx);

/* No operation may be under way. */
void
ioctx_free(struct ioctx *ctx);

/*
 * Submits what is queued and lets completions happen; with `wait`, blocks until at least one
 * operation or a part of one is complete.  Returns immediately when nothing is under way.
 */
void
ioctx_run(struct ioctx *ctx, bool wait);

/* Submits the operation and runs the context until it is done.  Returns its result.  io->done is
 * not used. */
int
ioctx_execute(struct ioctx *ctx, struct io *io);

#endif
