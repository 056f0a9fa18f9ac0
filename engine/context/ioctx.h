/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An I/O context: a way to the kernel (its ring or AIO context, its registered buffers, its
 * operations in flight) that only one thread uses at a time.
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
 * Makes a context for an image. If the image's backend can't be set up (no descriptors or memory
 * are left), logs that and uses `threads` instead. Returns 0 with *ctx, or -errno (-ENOMEM,
 * -EMFILE), which is logged. The caller frees the context with ioctx_free(); the image must outlive
 * it.
 */
int
ioctx_new(struct image *image, struct ioctx **ctx);

/*
 * The same for an event loop, which never waits in ioctx_run(). `ring` is the loop's ring, or NULL;
 * io_uring shares it, other backends do not use it. The loop calls ioctx_run(ctx, false) after it
 * has submitted operations, after ioctx_event() became readable (and was read), and again and again
 * while ioctx_wants_run().
 */
int
ioctx_new_hosted(struct image *image, struct ring *ring, struct ioctx **ctx);

/* Returns the context's eventfd, which becomes readable when an operation has completed or another
 * thread has granted a range. The context owns it. */
int
ioctx_event(const struct ioctx *ctx);

/* Returns whether the context needs another ioctx_run() without an event: chunks are in flight that
 * complete only if the thread polls, or ios wait for chunks that have become idle since the last
 * run. */
static inline bool
ioctx_wants_run(const struct ioctx *ctx)
{
	return (ctx->waiting && ctx->idle_count > 0) || (ctx->backend->polled && ctx->queued > 0);
}

/* Returns whether no io is in flight, so that the context needs no run until an io is submitted or
 * its event is readable. */
static inline bool
ioctx_is_idle(const struct ioctx *ctx)
{
	return ctx->unfinished == 0;
}

/*
 * Hands a job that may wait for a file system to a helper thread. Only for hosted contexts, on the
 * context's thread. A later ioctx_run() calls job->done(); the context's event becomes readable for
 * it.
 */
void
ioctx_help(struct ioctx *ctx, struct helper_job *job);

/* Writes to all buffers, so that they have memory, and starts the threads that the context may
 * need. The buffers must not be in use yet. */
void
ioctx_populate(struct ioctx *ctx);

/* Frees the context. No operation may be in flight. */
void
ioctx_free(struct ioctx *ctx);

/*
 * Issues queued ios, submits their chunks, and handles completions, which call done() of ios. With
 * `wait`, blocks until at least one operation, or a part of one, is complete. Returns at once if
 * nothing is in flight. Only on the context's thread.
 */
void
ioctx_run(struct ioctx *ctx, bool wait);

/* Submits the operation and runs the context until it is done. Returns its result (see io.h). The
 * function sets io->done itself. */
int
ioctx_execute(struct ioctx *ctx, struct io *io);

#endif
