/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/image/image.h"

#include "engine/backend/choice.h"
#include "engine/backing/direct.h"
#include "engine/backing/dontcache.h"
#include "engine/backing/kind.h"
#include "engine/backing/open.h"
#include "engine/context/pool.h"
#include "engine/image/format.h"
#include "engine/image/window.h"
#include "engine/io/chunk.h"
#include "engine/io/image_state.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* The smallest sector of NBD and of the loop driver, and the largest that the kernel's client
 * accepts, in bytes. */
#define SECTOR         512u
#define LARGEST_SECTOR 4096u

static void
warn_format(const struct image *image)
{
	char head[FORMAT_HEAD];
	ssize_t n = image->backing.kind->peek(&image->backing, head, sizeof(head),
					      image->config.offset);
	const char *name = n > 0 ? format_name(head, (size_t)n) : NULL;

	if (name)
		log_warning("%s: looks like a %s image, but is served as raw bytes",
			    image->backing.path, name);
}

/*
 * Returns the sector size that the user chose, or else the one that direct I/O would need. If the
 * user chose neither the sector size nor direct I/O, the sector size is that of the device: the
 * needs of direct I/O to a file may change from one start to the next (on XFS, with `cp
 * --reflink`), and a disk with another sector size would lose its partitions.
 */
static unsigned int
sector_for_direct(const struct image *image)
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
choose_direct(struct image *image, uint64_t length, char **error)
{
	struct image_config *config = &image->config;
	unsigned int sector = sector_for_direct(image);
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

/* Tells about a choice that has no effect, because direct I/O leaves no pages. */
static void
warn_unused_page_cache(const struct image *image)
{
	const struct image_config *config = &image->config;

	if (config->page_cache != PAGE_CACHE_AUTO && config->direct_io == TRISTATE_ON)
		log_warning("%s: page-cache=%s has no effect with direct-io=on",
			    image->backing.path, image_page_cache_names[config->page_cache]);
}

/* Refuses page-cache=drop for a backing that the page cache does not hold. */
static int
refuse_dropping(const struct image *image, char **error)
{
	if (image->config.page_cache != PAGE_CACHE_DROP)
		return 0;
	return error_set(error, -EOPNOTSUPP,
			 "%s: page-cache=drop is not possible: %s, so nothing of it is in this "
			 "machine's page cache; page-cache=auto is the same without the request",
			 image->backing.path, image->backing.direct_reason);
}

/* Decides whether pages stay in the page cache. */
static int
choose_page_cache(struct image *image, char **error)
{
	const struct image_config *config = &image->config;
	bool fell_back = config->direct_io == TRISTATE_AUTO && !image_direct(image);
	uint64_t end;

	warn_unused_page_cache(image);
	if (!image->backing.page_cache)
		return refuse_dropping(image, error);
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
 * A file, or a part of one, whose size is no multiple of a sector is bytes rather than a disk, and
 * is served whole, because a user who copies it over NBD wants its end, too.
 */
static void
choose_bytes(struct image *image, uint64_t length)
{
	struct image_config *config = &image->config;

	image->sector_reason = "";
	if (config->sector_size || image->backing.block_device || length % SECTOR == 0)
		return;
	config->sector_size = 1;
	image->sector_reason = "the size is no multiple of 512";
}

/* Warns of data that was lost when this process had the file open before: it stays lost. */
static void
warn_loss(const struct image *image)
{
	int lost = atomic_load(&image->shared->sync_failure);

	if (lost)
		log_warning(
			"%s: writing back failed earlier: %s; every flush fails until the server is started again",
			image->backing.path, strerror(-lost));
}

static int
image_prepare(struct image *image, char **error)
{
	uint64_t length;
	int r;

	image->file_size = backing_size(&image->backing);
	r = window_measure(&image->backing, &image->config, image->file_size, &length, error);
	if (r < 0)
		return r;
	choose_bytes(image, length);
	r = choose_direct(image, length, error);
	atomic_store(&image->cached, image_may_cache(image));
	if (r == 0)
		r = choose_page_cache(image, error);
	if (r == 0)
		r = backend_choose(&image->config, &image->backing, image_direct(image),
				   &image->backend, image->engine_reason, image->poll_reason,
				   error);
	if (r < 0)
		return r;
	image_set_size(image, window_round(&image->backing, &image->config, length,
					   image_min_block(image)));
	warn_format(image);
	warn_loss(image);
	return 0;
}

static int
share_file(struct image *image, char **error)
{
	image->shared = shared_file_get(&image->backing);
	if (!image->shared)
		return error_set(error, -errno, "%s: %s", image->backing.path, strerror(errno));
	image->ranges = &image->shared->ranges;
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
	pthread_mutex_init(&image->switching, NULL);
	pthread_mutex_init(&image->locking, NULL);
	pthread_mutex_init(&image->resizing, NULL);
	pthread_mutex_init(&image->facts, NULL);
	arena_init(&image->arena, (size_t)image_context_memory(image));
	image->pool = pool_new(config->contexts);
	r = image->pool ? share_file(image, error) : -ENOMEM;
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
