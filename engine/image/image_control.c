/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Questions about an image, and changes to it, while it is served. No request waits for any of
 * them, except that writes wait for a moment while direct I/O is switched.
 */
#include "engine/image/image.h"

#include "engine/backing/direct.h"
#include "engine/backing/kind.h"
#include "engine/context/pool.h"
#include "engine/image/freeze.h"
#include "engine/image/window.h"
#include "engine/io/backend.h"
#include "engine/io/image_state.h"
#include "engine/io/observer.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Adopts the size of the backing, in bytes, or -errno. The caller holds image->resizing. If the
 * size has not changed, its warnings are not repeated. */
static int
adopt_size(struct image *image, int64_t file_size, char **error)
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
	r = adopt_size(image, backing_size(&image->backing), error);
	pthread_mutex_unlock(&image->resizing);
	return r;
}

/* The same. The size that image_follow_size() tells needs no question to the backing, which may be
 * away. */
static int
adopt_changed_size(struct image *image, char **error)
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
		r = adopt_size(image, size, error);
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

	if (adopt_changed_size(image, &error) < 0) {
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

static bool
is_locked(struct image *image, bool writable)
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
lock_as(struct image *image, bool writable, char **error)
{
	struct backing *backing = &image->backing;
	const struct lock_part part = image_part(image);
	bool first = !is_locked(image, false);
	int r = backing->kind->lock(backing, &image->config, &part, writable, !first, error);

	if (first && r == 0 && (r = image_resize(image, error)) < 0)
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
	if (is_locked(image, writable))
		return 0;
	pthread_mutex_lock(&image->locking);
	if (!is_locked(image, writable))
		r = lock_as(image, writable, error);
	pthread_mutex_unlock(&image->locking);
	return r;
}

int
image_lock_check(struct image *image, bool writable, char **error)
{
	const struct lock_part part = image_part(image);

	*error = NULL;
	return image->backing.kind->lock_check(&image->backing, &image->config, &part, writable,
					       error);
}

int
image_sync(struct image *image)
{
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
drop_cache(struct image *image, char **error)
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
check_direct(struct image *image, char **error)
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
switch_direct(struct image *image, bool on, char **error)
{
	struct freeze freeze;
	int r = on ? check_direct(image, error) : 0;

	/* Writes most of the data back now, so that writes have to wait only for the rest. */
	if (r == 0 && on)
		r = drop_cache(image, error);
	if (r < 0)
		return r;
	freeze_begin(&freeze, &image, 1);
	if (on)
		r = drop_cache(image, error);
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
		r = switch_direct(image, on, error);
	pthread_mutex_unlock(&image->switching);
	return r;
}

static void
page_cache_reason(const struct image *image, bool direct, char reason[REASON_MAX])
{
	if (direct)
		snprintf(reason, REASON_MAX, "no effect with direct I/O");
	else if (image->sweeper && !atomic_load(&image->dontcache))
		snprintf(reason, REASON_MAX, "without RWF_DONTCACHE: %.*s", REASON_MAX - 32,
			 image->dontcache_reason[0] ? image->dontcache_reason
						    : "the file system refused a write with it");
}

void
image_status(struct image *image, struct image_status *status)
{
	*status = (struct image_status){
		.path = image->backing.path,
		.backing = &image->backing,
		.size = image_size(image),
		.offset = image->config.offset,
		.sizelimit = image->config.sizelimit,
		.device = image->backing.device,
		.inode = image->backing.inode,
		.sector_size = image->sector_size,
		.engine = image->backing.kind->engine ? image->backing.kind->engine
						      : image->backend->name,
		.poll = image->backend->polled && image_direct(image),
		.discard = image_discards(image),
		.lock = "not taken yet",
		.depth = image->config.depth,
	};
	memcpy(status->engine_reason, image->engine_reason, REASON_MAX);
	memcpy(status->poll_reason, image->poll_reason, REASON_MAX);
	memcpy(status->read_only_reason, image->backing.read_only_reason, REASON_MAX);
	status->page_cache = image->sweeper ? "drop" : "keep";
	if (image->backing.direct_fd >= 0) {
		status->direct_align = image->backing.direct_align;
		status->memory_align = image->backing.memory_align;
	}
	pthread_mutex_lock(&image->facts);
	status->direct = image_direct(image);
	memcpy(status->direct_reason, image->direct_reason, REASON_MAX);
	page_cache_reason(image, status->direct, status->page_cache_reason);
	/* With a reader's lock, its clients can't write (nbdkit -r). */
	status->writable = image->backing.writable && (!image->locked || image->locked_writable);
	if (image->locked)
		status->lock = lock_resolved_name(image->config.lock, image->locked_writable);
	pthread_mutex_unlock(&image->facts);
	status->contexts = pool_count(image, status->counters, &status->registered_buffers,
				      &status->registered_reason);
}

/* Returns " (reason)", or "" if there is no reason. */
static const char *
in_brackets(const char *reason, char text[REASON_MAX + 4])
{
	text[0] = '\0';
	if (reason[0])
		snprintf(text, REASON_MAX + 4, " (%s)", reason);
	return text;
}

/* Returns the part of the start-up line about the page cache; "" if the image has none, or if
 * direct I/O is on and the user did not ask for anything. */
static const char *
page_cache_words(const struct image *image, const struct image_status *status,
		 char text[REASON_MAX + 32])
{
	char reason[REASON_MAX + 4];

	if (!image->backing.page_cache ||
	    (status->direct && image->config.page_cache == PAGE_CACHE_AUTO))
		return "";
	snprintf(text, REASON_MAX + 32, ", page cache %s%s", status->page_cache,
		 in_brackets(status->page_cache_reason, reason));
	return text;
}

char *
image_summary(struct image *image, bool *degraded)
{
	char engine[REASON_MAX + 4], direct[REASON_MAX + 4], cache[REASON_MAX + 32],
		poll[REASON_MAX + 4], sector[REASON_MAX + 4], access[REASON_MAX + 4];
	struct image_status status;
	char *text;

	image_status(image, &status);
	*degraded = (status.engine_reason[0] && !image->backing.in_memory) ||
		    status.poll_reason[0] || status.read_only_reason[0] ||
		    (!status.direct && image->config.direct_io != TRISTATE_OFF &&
		     image->backing.page_cache);
	if (status.direct)
		snprintf(direct, sizeof(direct), " (%u-byte blocks%s)", status.direct_align,
			 image->backing.compressed
				 ? "; what is compressed goes through the page cache"
				 : "");
	else
		in_brackets(status.direct_reason, direct);
	if (asprintf(
		    &text,
		    "%s: %llu bytes, engine %s%s, direct I/O %s%s%s, polling %s%s, sector size %u%s, %s%s",
		    status.path, (unsigned long long)status.size, status.engine,
		    in_brackets(status.engine_reason, engine), status.direct ? "on" : "off", direct,
		    page_cache_words(image, &status, cache), status.poll ? "on" : "off",
		    in_brackets(status.poll_reason, poll), status.sector_size,
		    in_brackets(image->sector_reason, sector),
		    status.writable ? "writable" : "read-only",
		    in_brackets(status.read_only_reason, access)) < 0)
		return NULL;
	return text;
}
