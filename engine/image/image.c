/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/image/image.h"

#include "engine/backend/choice.h"
#include "engine/backing/direct.h"
#include "engine/backing/dontcache.h"
#include "engine/backing/kind.h"
#include "engine/backing/open.h"
#include "engine/context/pool.h"
#include "engine/image/format.h"
#include "engine/image/freeze.h"
#include "engine/image/window.h"
#include "engine/io/chunk.h"
#include "engine/io/chunk_plan.h"
#include "engine/io/image_state.h"
#include "engine/io/layered.h"
#include "engine/io/observer.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The smallest sector of NBD and of the loop driver, and the largest that the kernel's client
 * accepts, in bytes. */
#define SECTOR         512u
#define LARGEST_SECTOR 4096u

static void
image_note_format(struct image *image)
{
	char head[FORMAT_HEAD];
	ssize_t n = image->backing.kind->peek(&image->backing, head, sizeof(head),
					      image->config.offset);

	image->format = n > 0 ? format_name(head, (size_t)n) : NULL;
	if (image->format)
		log_warning("%s: looks like a %s image, but is served as raw bytes",
			    image->backing.path, image->format);
}

/*
 * Returns the sector size that the user chose, or else the one that direct I/O would need. If the
 * user chose neither the sector size nor direct I/O, the sector size is that of the device: the
 * needs of direct I/O to a file may change from one start to the next (on XFS, with `cp
 * --reflink`), and a disk with another sector size would lose its partitions.
 */
static unsigned int
image_sector_for_direct(const struct image *image)
{
	unsigned int align = image->backing.direct_sector;
	unsigned int device = 0;

	if (image->config.sector_size)
		return (unsigned int)image->config.sector_size;
	if (image->config.direct_io == TRISTATE_AUTO)
		device = backing_device_block(&image->backing);
	if (device && device < align)
		align = device;
	return image->backing.direct_fd >= 0 && align > SECTOR && align <= LARGEST_SECTOR ? align
											  : SECTOR;
}

/*
 * Decides between direct and buffered I/O, and with that on the sector size. If the user chose
 * neither, and the image's size is no multiple of direct I/O's blocks, the image keeps its last
 * sectors and uses buffered I/O.
 */
static int
image_choose_direct(struct image *image, uint64_t length, char **error)
{
	struct image_config *config = &image->config;
	unsigned int sector = image_sector_for_direct(image);
	bool keep_size = config->direct_io == TRISTATE_AUTO && !config->sector_size;
	int r;

	image->sector_size = config->sector_size ? (unsigned int)config->sector_size : SECTOR;
	if (config->direct_io == TRISTATE_OFF) {
		snprintf(image->direct_reason, REASON_MAX, "direct-io=off");
		return 0;
	}
	if (keep_size)
		length = length / SECTOR * SECTOR;
	else if (sector > 1)
		length = 0; /* the size will be rounded */
	r = direct_possible(&image->backing, config->offset, length, sector, image->direct_reason);
	if (r == 0) {
		image->sector_size = sector;
		atomic_store(&image->direct, true);
		return 0;
	}
	if (config->direct_io == TRISTATE_AUTO)
		return 0;
	return error_set(error, r, "%s: direct-io=on is not possible: %s; direct-io=auto or off %s",
			 image->backing.path, image->direct_reason,
			 image->backing.page_cache ? "would use the page cache"
						   : "goes without it");
}

/* Decides whether pages stay in the page cache. */
static int
image_choose_page_cache(struct image *image, char **error)
{
	const struct image_config *config = &image->config;
	bool fell_back = config->direct_io == TRISTATE_AUTO && !image_direct(image);
	uint64_t end;

	if (config->page_cache != PAGE_CACHE_AUTO && config->direct_io == TRISTATE_ON)
		log_warning("%s: page-cache=%s has no effect with direct-io=on",
			    image->backing.path, image_page_cache_names[config->page_cache]);
	if (!image->backing.page_cache && config->page_cache == PAGE_CACHE_DROP)
		return error_set(error, -EOPNOTSUPP,
				 "%s: page-cache=drop is not possible: %s, so nothing of it is in "
				 "this machine's page cache; page-cache=auto is the same without "
				 "the request",
				 image->backing.path, image->backing.direct_reason);
	if (!image->backing.page_cache)
		return 0;
	if (config->page_cache == PAGE_CACHE_KEEP ||
	    (config->page_cache == PAGE_CACHE_AUTO && (!fell_back || image->backing.in_memory)))
		return 0;
	if (image->backing.in_memory)
		return error_set(error, -EOPNOTSUPP,
				 "%s: page-cache=drop is not possible: the image is in memory; "
				 "page-cache=auto or keep would leave it there",
				 image->backing.path);
	if (!config->sizelimit || __builtin_add_overflow(config->offset, config->sizelimit, &end))
		end = UINT64_MAX;
	image->sweeper = sweeper_new(image->backing.fd, config->offset, end);
	if (!image->sweeper)
		return -ENOMEM;
	atomic_store(&image->dontcache,
		     dontcache_learn(image->backing.fd, image->dontcache_reason) == 0);
	return 0;
}

/*
 * A file, or a part of a file, whose size is no multiple of a sector is bytes rather than a disk.
 * It is served whole: a user who copies it over NBD wants its end, too.
 */
static void
image_choose_bytes(struct image *image, uint64_t length)
{
	struct image_config *config = &image->config;

	image->sector_reason = "";
	if (config->sector_size || image->backing.block_device || length % SECTOR == 0)
		return;
	config->sector_size = 1;
	image->sector_reason = "the size is no multiple of 512";
}

static int
image_prepare(struct image *image, char **error)
{
	uint64_t length;
	int r, lost;

	image->ranges = &image->shared->ranges;
	image->plan = plan_chunk;
	image->file_size = backing_size(&image->backing);
	r = window_measure(&image->backing, &image->config, image->file_size, &length, error);
	if (r < 0)
		return r;
	image_choose_bytes(image, length);
	r = image_choose_direct(image, length, error);
	atomic_store(&image->cached, image_may_cache(image));
	if (r == 0)
		r = image_choose_page_cache(image, error);
	if (r == 0)
		r = backend_choose(&image->config, &image->backing, image_direct(image),
				   &image->backend, image->engine_reason, image->poll_reason,
				   error);
	if (r < 0)
		return r;
	image_set_size(image, window_round(&image->backing, &image->config, length,
					   image_min_block(image)));
	image_note_format(image);
	if (image->backing.layers && !(image->layered = layered_new(image)))
		return -ENOMEM;
	/* Data that was lost when this process had the file open before stays lost. */
	lost = atomic_load(&image->shared->sync_failure);
	if (lost)
		log_warning(
			"%s: an earlier write-back failed: %s; every flush fails until the server is restarted",
			image->backing.path, strerror(-lost));
	return 0;
}

int
image_open_backing(struct backing *backing, const struct image_config *config,
		   struct image **result, char **error)
{
	struct image *image = aligned_alloc(64, sizeof(*image));
	int r;

	if (!image) {
		backing_close(backing);
		return -ENOMEM;
	}
	memset(image, 0, sizeof(*image));
	image->config = *config;
	image->backing = *backing;
	image->config.offset += backing->start;
	pthread_mutex_init(&image->switching, NULL);
	pthread_mutex_init(&image->locking, NULL);
	pthread_mutex_init(&image->resizing, NULL);
	pthread_mutex_init(&image->facts, NULL);
	arena_init(&image->arena, (size_t)image_context_memory(image));
	image->pool = pool_new(config->contexts);
	r = image->pool ? 0 : -ENOMEM;
	if (r == 0) {
		image->shared = shared_file_get(&image->backing);
		r = image->shared ? 0 : -errno;
		if (r < 0)
			error_set(error, r, "%s: %s", image->backing.path, strerror(-r));
	}
	if (r == 0)
		r = image_prepare(image, error);
	if (r < 0)
		image_close(image);
	else
		*result = image;
	return r;
}

int
image_open(int dirfd, const char *path, unsigned int flags, const struct image_config *config,
	   struct image **result, char **error)
{
	struct backing backing;
	int r;

	*error = NULL;
	r = backing_open(&backing, dirfd, path, flags, config, error);
	return r < 0 ? r : image_open_backing(&backing, config, result, error);
}

void
image_close(struct image *image)
{
	if (!image)
		return;
	image_unfollow_size(image);
	pool_free(image->pool);
	layered_free(image->layered);
	sweeper_free(image->sweeper);
	arena_fini(&image->arena);
	shared_file_put(image->shared);
	pthread_mutex_destroy(&image->facts);
	pthread_mutex_destroy(&image->resizing);
	pthread_mutex_destroy(&image->locking);
	pthread_mutex_destroy(&image->switching);
	backing_close(&image->backing);
	free(image);
}

bool
image_same(const struct image *a, const struct image *b)
{
	return backing_same(&a->backing, &b->backing);
}

uint64_t
image_size(const struct image *image)
{
	return atomic_load_explicit(&image->size, memory_order_relaxed);
}

uint64_t
image_start(const struct image *image)
{
	return image->config.offset;
}

uint64_t
image_offset(const struct image *image)
{
	return image->config.offset - image->backing.start;
}

/* The engine serves any bytes, and keeps neighbours in a sector apart itself. A client that reads,
 * changes and writes whole sectors in its place might undo what another client writes. But servers
 * that share an image know nothing of each other's parts of sectors. */
unsigned int
image_min_block(const struct image *image)
{
	unsigned int lock = image->config.lock;
	bool shared = image_writable(image) && (lock == LOCK_SHARED || lock == LOCK_OFF);

	if (shared || image->config.sector_size || image->sector_size > SECTOR)
		return image->sector_size;
	return 1;
}

bool
image_writable(const struct image *image)
{
	return image->backing.writable;
}

bool
image_is_temporary(const struct image *image)
{
	return layered_is_temporary(image->layered);
}

bool
image_others_may_write(const struct image *image)
{
	unsigned int lock = image->config.lock;

	return lock == LOCK_OFF || (lock == LOCK_SHARED && image->backing.writable);
}

bool
image_discards(const struct image *image)
{
	return image->config.discard == TRISTATE_ON;
}

bool
image_direct(const struct image *image)
{
	return atomic_load_explicit(&image->direct, memory_order_relaxed);
}

bool
image_fills_cache(const struct image *image)
{
	return image->backing.page_cache && !image_direct(image) && !image->sweeper;
}

bool
image_has_holes(const struct image *image)
{
	return !image->backing.block_device;
}

bool
image_is_fenced(const struct image *image)
{
	const struct backing *backing = &image->backing;

	return backing->kind->is_fenced && backing->kind->is_fenced(backing);
}

void
image_stop_waiting(struct image *image)
{
	if (image->backing.kind->stop_waiting)
		image->backing.kind->stop_waiting(&image->backing);
}

bool
image_may_be_left(const struct image *image)
{
	const struct backing *backing = &image->backing;

	return backing->kind->may_be_left && backing->kind->may_be_left(backing);
}

/* The libraries of a backing with calls of its own have threads, and allocate memory for each call.
 */
bool
image_survives_fork(const struct image *image)
{
	return !image->backing.kind->start;
}

bool
image_rotational(const struct image *image)
{
	uint64_t rotational;

	return backing_queue_read(&image->backing, "rotational", &rotational) == 0 &&
	       rotational == 1;
}

int
image_cache(struct image *image, uint64_t offset, uint64_t length)
{
	/* To posix_fadvise(), a length of 0 means the rest of the file. */
	if (!image_fills_cache(image) || length == 0)
		return 0;
	return -posix_fadvise(image->backing.fd, (off_t)(image->config.offset + offset),
			      (off_t)length, POSIX_FADV_WILLNEED);
}

uint64_t
image_context_memory(const struct image *image)
{
	return (uint64_t)image->config.depth * CHUNK_SIZE;
}

/* ---- the size, which others may change */

/* Adopts the size of the backing, in bytes, or -errno. The caller holds image->resizing. If the
 * size has not changed, its warnings are not repeated. */
static int
image_adopt(struct image *image, int64_t file_size, char **error)
{
	uint64_t length, size;
	struct freeze freeze;
	bool shrinks, moves;
	int r;

	image->file_size = file_size;
	/* That is the end of a device, and clients need not think that it shrank. */
	if (image->backing.block_device && file_size == 0 && image_size(image) > 0)
		return error_set(error, -ENODEV, "%s: the device is gone, or has no medium",
				 image->backing.path);
	r = window_measure(&image->backing, &image->config, file_size, &length, error);
	/* The image keeps its size, but the file may have lost bytes that it gets back later. */
	if (r < 0 && file_size >= 0 && !image->backing.kind->start) {
		freeze_begin(&freeze, &image, 1);
		observers_tell_end(image->ranges, (uint64_t)file_size);
		freeze_end(&freeze);
	}
	if (r < 0 || length - length % image_min_block(image) == image_size(image))
		return r;
	size = window_round(&image->backing, &image->config, length, image_min_block(image));
	/* The page at the old end may get direct writes from now on, and the page at the new end
	 * buffered ones. */
	moves = direct_end(&image->backing, image->config.offset + size) !=
		atomic_load(&image->direct_end);
	/* Copies must know; there are none of an image whose disk is elsewhere. */
	shrinks = size < image_size(image) && !image->backing.kind->start;
	if (moves || shrinks)
		freeze_begin(&freeze, &image, 1);
	image_set_size(image, size);
	if (shrinks)
		observers_tell_end(image->ranges, (uint64_t)file_size);
	if (moves || shrinks)
		freeze_end(&freeze);
	return 0;
}

int
image_resize(struct image *image, char **error)
{
	int r;

	*error = NULL;
	pthread_mutex_lock(&image->resizing);
	r = image_adopt(image, backing_size(&image->backing), error);
	pthread_mutex_unlock(&image->resizing);
	return r;
}

/* The same. The size that image_follow_size() tells needs no question to the backing, which may be
 * away. */
static int
image_adopt_changed(struct image *image, char **error)
{
	const struct backing_kind *kind = image->backing.kind;
	int64_t size;
	int r;

	pthread_mutex_lock(&image->resizing);
	size = kind->told_size ? kind->told_size(&image->backing) : backing_size(&image->backing);
	/* An accident, rather than a new size: clients shall see errors, and no empty disk. */
	if (size == 0 && !kind->told_size && !image->backing.block_device &&
	    image_size(image) > 0) {
		image->file_size = 0;
		r = error_set(error, -ENODATA, "the file is empty");
	} else {
		r = image_adopt(image, size, error);
	}
	pthread_mutex_unlock(&image->resizing);
	return r;
}

void
image_follow_size(struct image *image, bool (*resized)(void *data, bool shrunk), void *data)
{
	if (!image->backing.kind->follow_size)
		return;
	image->follower = (struct size_follower){.resized = resized, .data = data};
	image->backing.kind->follow_size(&image->backing, &image->follower);
}

void
image_unfollow_size(struct image *image)
{
	if (image->follower.resized)
		image->backing.kind->unfollow_size(&image->backing, &image->follower);
	image->follower.resized = NULL;
}

bool
image_adopt_size(struct image *image)
{
	unsigned long long before = image_size(image), now;
	char *CLEANUP_FREE error = NULL;

	if (image_adopt_changed(image, &error) < 0) {
		log_error("%s: its size was changed elsewhere, and can't be followed: %s",
			  image->backing.path, error ? error : strerror(ENOMEM));
		return false;
	}
	now = image_size(image);
	if (now > before)
		log_info("%s: resized elsewhere, from %llu to %llu bytes", image->backing.path,
			 before, now);
	else if (now < before)
		log_warning("%s: resized elsewhere, from %llu to %llu bytes; requests beyond the "
			    "new end fail",
			    image->backing.path, before, now);
	return true;
}

/* ---- the lock */

static bool
image_is_locked(struct image *image, bool writable)
{
	bool locked;

	pthread_mutex_lock(&image->facts);
	locked = image->locked && (image->locked_writable || !writable);
	pthread_mutex_unlock(&image->facts);
	return locked;
}

static struct lock_part
image_part(const struct image *image)
{
	const struct image_config *config = &image->config;
	uint64_t end;

	if (!config->sizelimit || __builtin_add_overflow(config->offset, config->sizelimit, &end))
		end = UINT64_MAX;
	return (struct lock_part){config->offset, end};
}

bool
image_meets(const struct image *a, const struct image *b)
{
	const struct lock_part one = image_part(a), other = image_part(b);

	return image_same(a, b) && backing_parts_meet(&one, &other);
}

/* Takes the lock, and with the first one the file's size again. An earlier lock stays if this
 * fails. The caller holds image->locking. */
static int
image_lock_as(struct image *image, bool writable, char **error)
{
	struct backing *backing = &image->backing;
	const struct lock_part part = image_part(image);
	bool first = !image_is_locked(image, false);
	int r = 0;

	if (backing->kind->lock)
		r = backing->kind->lock(backing, &image->config, &part, writable, !first, error);
	if (first && r == 0 && (r = image_resize(image, error)) < 0 && backing->kind->unlock)
		backing->kind->unlock(backing);
	if (r < 0)
		return r;
	pthread_mutex_lock(&image->facts);
	image->locked = true;
	image->locked_writable = writable;
	pthread_mutex_unlock(&image->facts);
	return 0;
}

int
image_lock(struct image *image, bool writable, char **error)
{
	int r = 0;

	*error = NULL;
	if (image_is_locked(image, writable))
		return 0;
	pthread_mutex_lock(&image->locking);
	if (!image_is_locked(image, writable))
		r = image_lock_as(image, writable, error);
	pthread_mutex_unlock(&image->locking);
	return r;
}

int
image_lock_check(struct image *image, bool writable, char **error)
{
	const struct lock_part part = image_part(image);

	*error = NULL;
	if (!image->backing.kind->lock_check)
		return 0;
	return image->backing.kind->lock_check(&image->backing, &image->config, &part, writable,
					       error);
}

/* ---- durability, and direct I/O */

int
image_sync(struct image *image)
{
	if (image->layered)
		return layered_commit(image->layered);
	if (fsync(image->backing.fd) < 0) {
		int err = -errno;

		/* The kernel has marked the pages clean. */
		if (atomic_load(&image->cached))
			shared_file_record_loss(image->shared, err);
		return err;
	}
	return image_check_sync(image);
}

/* Writes the file's data in the page cache back and drops it. */
static int
image_drop_cache(struct image *image, char **error)
{
	if (fdatasync(image->backing.fd) < 0) {
		int err = -errno;

		shared_file_record_loss(image->shared, err);
		return error_set(error, err,
				 "%s: writing back buffered data failed: %s; direct I/O stays off",
				 image->backing.path, strerror(-err));
	}
	posix_fadvise(image->backing.fd, 0, 0, POSIX_FADV_DONTNEED);
	return 0;
}

static int
image_check_direct(struct image *image, char **error)
{
	char reason[REASON_MAX];
	/* The last part of a sector needs no direct I/O. */
	bool is_odd = image_size(image) % image->sector_size;
	int r = direct_possible(&image->backing, image->config.offset, image_size(image),
				is_odd ? image_min_block(image) : image->sector_size, reason);

	return r < 0 ? error_set(error, r, "%s: direct I/O is not possible: %s",
				 image->backing.path, reason)
		     : r;
}

/* The caller holds image->switching. */
static int
image_switch_direct(struct image *image, bool on, char **error)
{
	struct freeze freeze;
	int r = on ? image_check_direct(image, error) : 0;

	/* Writes most of the data back now, so that writes have to wait only for the rest. */
	if (r == 0 && on)
		r = image_drop_cache(image, error);
	if (r < 0)
		return r;
	freeze_begin(&freeze, &image, 1);
	if (on)
		r = image_drop_cache(image, error);
	if (!on)
		atomic_store(&image->cached, true);
	if (r == 0)
		atomic_store(&image->direct, on);
	freeze_end(&freeze);
	if (r == 0) {
		pthread_mutex_lock(&image->facts);
		snprintf(image->direct_reason, REASON_MAX, "%s", on ? "" : "switched off");
		pthread_mutex_unlock(&image->facts);
	}
	return r;
}

int
image_set_direct(struct image *image, bool on, char **error)
{
	int r = 0;

	*error = NULL;
	pthread_mutex_lock(&image->switching);
	if (image_direct(image) != on)
		r = image_switch_direct(image, on, error);
	pthread_mutex_unlock(&image->switching);
	return r;
}

/* ---- looks: what the kind of backing finds now is compared with what it found at the opening */

bool
image_is_looked_at(const struct image *image)
{
	return image->backing.kind->look;
}

void
image_look(struct image *image, bool again, struct image_look *look)
{
	struct backing_look seen;
	char before[BACKING_TROUBLE];
	bool differs;

	*look = (struct image_look){.resized = false};
	if (!image_is_looked_at(image))
		return;
	image->backing.kind->look(&image->backing, &seen);
	pthread_mutex_lock(&image->facts);
	memcpy(before, image->trouble, sizeof(before));
	memcpy(image->trouble, seen.trouble, sizeof(before));
	pthread_mutex_unlock(&image->facts);
	differs = strcmp(before, seen.trouble) != 0;
	if (differs && before[0])
		log_info("%s: no longer true: %s", image->backing.path, before);
	if (seen.trouble[0] && (differs || again))
		log_warning("%s: %s", image->backing.path, seen.trouble);
	pthread_mutex_lock(&image->resizing);
	look->resized = seen.size != image->file_size;
	pthread_mutex_unlock(&image->resizing);
	look->writable_again = seen.writable_again;
}
