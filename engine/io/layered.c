/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/io/layered.h"

#include "engine/io/chunk_plan.h"
#include "engine/io/helpers.h"
#include "engine/io/image_state.h"
#include "engine/io/io.h"
#include "engine/io/ioctx_state.h"
#include "engine/io/observer.h"
#include "engine/layer/layer.h"
#include "engine/layer/layer_keeper.h"

#include "common/container_of.h"
#include "common/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Granules that are copied at the same time, if their numbers are not equal modulo this. */
#define COPIES 64

struct layered {
	struct observer observer;
	struct image *image;
	struct layers *layers;
	/* Held while a granule is copied, so that no copy lands on a change that came after another
	 * copy of it. */
	pthread_mutex_t copying[COPIES];
};

enum layered_step {
	LAYERED_COPY,
	LAYERED_COPY_AGAIN, /* of a part of a failed change: its own edges */
	LAYERED_MARK,
	LAYERED_COMMIT,
};

/* One step for the ios of a context. */
struct layered_work {
	struct helper_job job;
	struct ioctx *ctx;
	enum layered_step step;
	struct io *gathered, **tail; /* ios that wait for it */
	struct io *working;          /* those that the helper has */
	uint64_t ticket;             /* COMMIT: of the last gathered one */
	uint64_t working_ticket;     /* COMMIT: of the last one that the helper has */
};

static void
layered_fail(struct io *io, int err, const char *detail)
{
	io_log_failure(io->ctx->image->backing.path, io, err, detail);
	io->reported = true;
	if (io->result == 0)
		io->result = err == -ENOSPC || err == -EDQUOT ? -ENOSPC : -EIO;
}

/* ---- places */

/* Where an io begins on the disk, in bytes. The window of an image is a part of the disk. */
static uint64_t
layered_place(const struct image *image, const struct io *io)
{
	return image->config.offset - image->backing.start + io->offset;
}

/* Returns the granules of which the io covers all bytes of the disk. */
static struct layer_span
layered_span(const struct layered *layered, const struct io *io)
{
	const uint64_t granule = layered->layers->map.granule, size = layered->layers->header.size;
	const uint64_t start = layered_place(layered->image, io), end = start + io->length;

	return (struct layer_span){
		.first = (start + granule - 1) / granule,
		.end = end == size ? layered->layers->map.granules : end / granule,
	};
}

static bool
layered_lacks(const struct layered *layered, uint64_t granule)
{
	return layer_map_owner(&layered->layers->map, granule) != layered->layers->top;
}

/* ---- copies of granules */

/* Writes bytes of a granule into the topmost layer. */
static int
layered_put(const struct image *image, const char *bytes, size_t length, uint64_t place)
{
	const struct backing *backing = &image->backing;
	const uint64_t offset = backing->start + place;
	const bool direct =
		atomic_load_explicit(&image->direct, memory_order_relaxed) &&
		offset + length <= atomic_load_explicit(&image->direct_end, memory_order_relaxed) &&
		length % backing->direct_align == 0;
	size_t done = 0;

	while (done < length) {
		ssize_t n = pwrite(direct ? backing->direct_fd : backing->fd, bytes + done,
				   length - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		/* The rest of a short direct write would not be aligned: all is written again. */
		done = direct && (size_t)n < length - done ? 0 : done + (size_t)n;
	}
	return 0;
}

/* Copies a granule from below, unless the topmost layer has it. Returns 0 or -errno. */
static int
layered_copy(struct layered *layered, uint64_t granule)
{
	struct layers *layers = layered->layers;
	const struct layer_span span = {granule, granule + 1};
	const uint64_t place = granule * layers->map.granule;
	const uint64_t rest = layers->header.size - place;
	const size_t length = (size_t)(rest < layers->map.granule ? rest : layers->map.granule);
	pthread_mutex_t *mutex = &layered->copying[granule % COPIES];
	void *buffer;
	int r = 0;

	if (posix_memalign(&buffer, 4096, layers->map.granule) != 0)
		return -ENOMEM;
	pthread_mutex_lock(mutex);
	if (layered_lacks(layered, granule)) {
		r = layers_read(layers, buffer, length, place);
		if (r == 0)
			r = layered_put(layered->image, buffer, length, place);
		if (r == 0)
			r = layer_keeper_mark(layers, layered->image->backing.fd, &span, 1);
	}
	pthread_mutex_unlock(mutex);
	free(buffer);
	return r;
}

/* ---- marks and commits */

static void
layered_mark(struct layered *layered, struct io *ios)
{
	struct layer_span spans[128];
	const int fd = layered->image->backing.fd;

	while (ios) {
		struct io *io = ios;
		size_t count = 0;
		int r;

		for (; io && count < sizeof(spans) / sizeof(spans[0]); io = io->next)
			spans[count++] = layered_span(layered, io);
		r = layer_keeper_mark(layered->layers, fd, spans, count);
		for (; ios != io; ios = ios->next) {
			if (r < 0)
				layered_fail(ios, r, "the layer's map can't be written");
		}
	}
}

/* Puts what was written on stable storage, as chunk.c's syncs do. */
static int
layered_sync_file(void *data)
{
	struct image *image = data;
	int r;

	if (fdatasync(image->backing.fd) == 0)
		return image_check_sync(image);
	r = -errno;
	/* The maps are in the page cache, if nothing else is. */
	shared_file_record_loss(image->shared, r);
	return r;
}

static int
layered_commit_until(struct layered *layered, uint64_t ticket)
{
	/* Nothing outlives the server, and nothing is synced; but what write-back has lost is lost
	 * at once. */
	if (layered->layers->temporary)
		return image_check_sync(layered->image);
	return layer_keeper_commit(layered->layers, layered->image->backing.fd, ticket,
				   layered_sync_file, layered->image);
}

bool
layered_is_temporary(const struct layered *layered)
{
	return layered && layered->layers->temporary;
}

int
layered_commit(struct layered *layered)
{
	return layered_commit_until(layered, layer_keeper_ticket(layered->layers));
}

/* Does what must come before a change. A discard leaves bytes of the base as they are in granules
 * that it covers only in part. */
static void
layered_prepare_change(struct layered *layered, struct io *io)
{
	const uint64_t granule = layered->layers->map.granule;
	const uint64_t start = layered_place(layered->image, io), end = start + io->length;
	const struct layer_span span = layered_span(layered, io);
	const bool copies = io->op != IO_DISCARD;
	int r = layer_keeper_enter(layered->layers, layered->image->backing.fd, layered_sync_file,
				   layered->image);

	if (r < 0) {
		layered_fail(io, r, "the layer's header can't be written");
		return;
	}
	if (copies && start % granule)
		r = layered_copy(layered, start / granule);
	if (r == 0 && copies && span.end < layered->layers->map.granules && end % granule)
		r = layered_copy(layered, end / granule);
	if (r < 0)
		layered_fail(io, r, "copying from the base");
}

/* ---- steps */

static void
layered_take_step(struct layered *layered, enum layered_step step, struct io *ios, uint64_t ticket)
{
	int r = 0;

	if (step == LAYERED_MARK)
		layered_mark(layered, ios);
	if (step == LAYERED_COMMIT)
		r = layered_commit_until(layered, ticket);
	for (struct io *io = ios; io; io = io->next) {
		if (step == LAYERED_COPY || step == LAYERED_COPY_AGAIN)
			layered_prepare_change(layered, io);
		if (r == 0)
			continue;
		layered_fail(io, r,
			     image_check_sync(layered->image)
				     ? "what was written before may be lost; every later flush of "
				       "this image fails until the server is started again"
				     : "the layer's map can't be written");
		io->written = true;
	}
}

/* On a helper's thread. */
static void
layered_work_run(struct helper_job *job)
{
	struct layered_work *work = container_of(job, struct layered_work, job);

	layered_take_step(work->ctx->image->layered, work->step, work->working,
			  work->working_ticket);
}

static void
layered_give(struct layered_work *work)
{
	if (work->working || !work->gathered)
		return;
	work->working = work->gathered;
	work->working_ticket = work->ticket;
	work->gathered = NULL;
	work->tail = &work->gathered;
	helpers_give(&work->ctx->helpers, &work->job);
}

/* A change goes on in io_settle(), except one that has not begun. */
static void
layered_resume(enum layered_step step, struct io *io)
{
	if (step == LAYERED_COMMIT)
		io->in_flight--;
	if (step == LAYERED_COPY)
		io_come_back(io);
	else if (step == LAYERED_COPY_AGAIN)
		io_queue(io->ctx, io);
	else
		io_settle(io);
}

static void
layered_work_done(struct helper_job *job)
{
	struct layered_work *work = container_of(job, struct layered_work, job);
	struct io *io = work->working;

	work->working = NULL;
	layered_give(work);
	while (io) {
		struct io *next = io->next;

		layered_resume(work->step, io);
		io = next;
	}
}

static struct layered_work *
layered_work_of(struct ioctx *ctx, enum layered_step step)
{
	struct layered_work *work = ctx->layered[step];

	if (work)
		return work;
	work = calloc(1, sizeof(*work));
	if (!work)
		return NULL;
	*work = (struct layered_work){
		.job = {.work = layered_work_run, .done = layered_work_done},
		.ctx = ctx,
		.step = step,
	};
	work->tail = &work->gathered;
	ctx->layered[step] = work;
	return work;
}

/* Takes a step for an io. Returns true if it is done; otherwise the io goes on later. */
static bool
layered_begin(struct io *io, enum layered_step step)
{
	struct ioctx *ctx = io->ctx;
	struct layered *layered = ctx->image->layered;
	const uint64_t ticket = layer_keeper_ticket(layered->layers);
	struct layered_work *work = ctx->hosted ? layered_work_of(ctx, step) : NULL;

	io->next = NULL;
	if (ctx->hosted && !work) {
		layered_fail(io, -ENOMEM, NULL);
		return true;
	}
	if (!work) {
		layered_take_step(layered, step, io, ticket);
		return true;
	}
	work->ticket = ticket;
	*work->tail = io;
	work->tail = &io->next;
	layered_give(work);
	return false;
}

/* ---- the moments of an io */

/* Returns whether something must come before a change: layered_prepare_change(). */
static bool
layered_needs_step(const struct layered *layered, const struct io *io)
{
	const uint64_t granule = layered->layers->map.granule;
	const uint64_t start = layered_place(layered->image, io), end = start + io->length;

	if (!layer_keeper_has_entered(layered->layers))
		return true;
	if (io->op == IO_DISCARD)
		return false;
	return (start % granule && layered_lacks(layered, start / granule)) ||
	       (end % granule && end != layered->layers->header.size &&
		layered_lacks(layered, end / granule));
}

static bool
layered_before_change(struct observer *observer, struct range *range)
{
	struct layered *layered = container_of(observer, struct layered, observer);
	struct io *io = io_of_range(range);

	io->care |= IO_STEPS;
	if (layered->layers->temporary)
		io->flags &= ~(unsigned int)IO_FUA;
	return !layered_needs_step(layered, io) || layered_begin(io, LAYERED_COPY);
}

/* The edges of a part can lie in granules that the whole change would have covered. */
static bool
layered_before_retry(struct io *io)
{
	if (!io_changes_data(io))
		return true;
	io->care |= IO_STEPS;
	return !layered_needs_step(io->ctx->image->layered, io) ||
	       layered_begin(io, LAYERED_COPY_AGAIN);
}

/* Whether the layer's map must be committed before a change with FUA is done. */
static void
layered_check_durable(struct io *io)
{
	if (io->durable && layer_keeper_is_stale(io->ctx->image->layered->layers))
		io->durable = false;
}

static bool
layered_after_change(struct io *io)
{
	const struct layered *layered = io->ctx->image->layered;
	const struct layer_span span = layered_span(layered, io);

	if (!(io->care & IO_MARKED)) {
		io->care |= IO_MARKED;
		if (!layer_map_has_all(&layered->layers->map, span.first, span.end,
				       layered->layers->top) &&
		    !layered_begin(io, LAYERED_MARK))
			return false;
	}
	if (!(io->care & IO_COMMITTED))
		layered_check_durable(io);
	return true;
}

/* Lets a commit take the place of the io's sync, if one is needed. */
static bool
layered_takes_sync(const struct image *image, struct io *io)
{
	struct layered *layered = image->layered;

	/* If a sync fails, granules may be lost whose marks nobody has committed yet. */
	if (!layered->layers->temporary && !layer_keeper_is_stale(layered->layers) &&
	    !atomic_load_explicit(&image->cached, memory_order_relaxed))
		return false;
	io->syncing = false;
	io->durable = true;
	io->care |= IO_COMMITTED;
	if (layered->layers->temporary) {
		/* This does not wait. */
		io->next = NULL;
		layered_take_step(layered, LAYERED_COMMIT, io, 0);
		return true;
	}
	/* The caller settles it, which must have no effect before the commit is done. */
	if (!layered_begin(io, LAYERED_COMMIT))
		io->in_flight++;
	return true;
}

/* Takes the place of plan_chunk(). What lies in one file is one chunk. */
static bool
layered_plan(const struct image *image, struct io *io, struct chunk *chunk)
{
	uint64_t start, end;
	struct plan_place place;

	if (io->syncing && io->issued == io->length && layered_takes_sync(image, io))
		return false;
	if (io->syncing || io->op != IO_READ)
		return plan_chunk(image, io, chunk);
	start = layered_place(image, io) + io->issued;
	end = layered_place(image, io) + io->length;
	place.bytes =
		layers_run(image->backing.layers, start, end, &place.below, &place.offset) - start;
	plan_read(image, io, chunk, &place);
	return true;
}

static const struct io_steps layered_steps = {
	.after_change = layered_after_change,
	.before_retry = layered_before_retry,
};

/* ---- beginning and end */

struct layered *
layered_new(struct image *image)
{
	struct layered *layered = calloc(1, sizeof(*layered));

	if (!layered)
		return NULL;
	layered->image = image;
	layered->layers = image->backing.layers;
	layered->observer.change = layered_before_change;
	for (unsigned int i = 0; i < COPIES; i++)
		pthread_mutex_init(&layered->copying[i], NULL);
	/* No change is in flight yet, and no other image has the layer. */
	observer_add(image->ranges, &layered->observer);
	image->steps = &layered_steps;
	image->plan = layered_plan;
	return layered;
}

void
layered_free(struct layered *layered)
{
	bool kept;
	int r = 0;

	if (!layered)
		return;
	kept = layered->image->backing.writable && !layered->layers->temporary;
	if (kept)
		r = layered_commit(layered);
	if (r == 0 && kept)
		r = layer_keeper_end(layered->layers, layered->image->backing.fd);
	if (r < 0)
		log_error("%s: the layer's map can't be made durable: %s",
			  layered->image->backing.path, strerror(-r));
	observer_remove(layered->image->ranges, &layered->observer);
	for (unsigned int i = 0; i < COPIES; i++)
		pthread_mutex_destroy(&layered->copying[i]);
	free(layered);
}

void
layered_fini(struct ioctx *ctx)
{
	for (unsigned int i = 0; i < sizeof(ctx->layered) / sizeof(ctx->layered[0]); i++)
		free(ctx->layered[i]);
}
