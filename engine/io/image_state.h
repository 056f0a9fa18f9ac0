/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of an image, for the engine's own files.
 */
#ifndef ENGINE_IO_IMAGE_STATE_H
#define ENGINE_IO_IMAGE_STATE_H

#include "engine/backing/backing.h"
#include "engine/backing/direct.h"
#include "engine/backing/kind.h"
#include "engine/image_config.h"
#include "engine/io/arena.h"
#include "engine/io/shared_file.h"
#include "engine/io/sweeper.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

struct backend;
struct chunk;
struct io;
struct io_steps;
struct layered;
struct pool;
struct range_lock;

struct image {
	/* Constant after image_open(). */
	struct backing backing;
	struct image_config config;
	const struct backend *backend;
	struct shared_file *shared; /* shared by all images of the file */
	struct range_lock *ranges;  /* the range lock in .shared */
	struct pool *pool;          /* the image's contexts */
	/* plan_chunk(), or what takes its place. */
	bool (*plan)(const struct image *image, struct io *io, struct chunk *chunk);
	const struct io_steps *steps; /* what ios need besides chunks; NULL: nothing */
	struct layered *layered;      /* layered.h; NULL: the image is no layer */
	struct sweeper *sweeper;      /* page-cache=drop; NULL: the page cache keeps its pages */
	unsigned int sector_size;
	const char *sector_reason; /* why .sector_size is 1 although the user did not choose it;
				      else "" */
	const char *format; /* what the bytes look like, such as "qcow2"; NULL: raw, or unknown */
	char engine_reason[REASON_MAX];
	char poll_reason[REASON_MAX];
	char dontcache_reason[REASON_MAX]; /* why .dontcache is false although there is a sweeper */

	/* Read by every operation, written only by the control path. */
	alignas(64) _Atomic uint64_t size; /* of the window, in bytes */
	_Atomic uint64_t direct_end; /* offset in the file from which the page cache is always used:
					see direct_end() */
	_Atomic bool direct;
	_Atomic bool dontcache; /* transfers may have RWF_DONTCACHE, as far as we know */
	_Atomic bool cached; /* the page cache may hold acknowledged data: see image_may_cache() */
	_Atomic unsigned int unsupported; /* bits of the fallocate() kinds that the backing has
					     refused: see space.c */

	/* Held while direct I/O is switched, which takes as long as a write-back. */
	alignas(64) pthread_mutex_t switching;

	/* Held while the lock on the file is taken, which may have to wait until a killed server is
	 * gone. */
	pthread_mutex_t locking;

	/* Held while the size is asked for and adopted. */
	pthread_mutex_t resizing;
	int64_t file_size; /* that was adopted last, or refused, in bytes; guarded by .resizing */

	/* Held only for moments: connecting and asking for the status never wait for I/O. */
	pthread_mutex_t facts;
	char direct_reason[REASON_MAX]; /* guarded by .facts, like the members below */
	bool locked, locked_writable;

	char trouble[BACKING_TROUBLE]; /* what the last image_look() has found; guarded, too */

	struct size_follower follower; /* .resized NULL: there is none */

	struct arena arena; /* bounce buffers of the pool's contexts */
};

/* Sets the window's size, in bytes, and the .direct_end that follows from it. No write may be in
 * flight at the old or the new .direct_end. */
static inline void
image_set_size(struct image *image, uint64_t size)
{
	atomic_store(&image->direct_end, direct_end(&image->backing, image->config.offset + size));
	atomic_store(&image->size, size);
}

/*
 * Returns whether the page cache may hold acknowledged data as soon as the image is open, which is
 * the first value of .cached. Even with direct I/O, a file system may write into the page cache:
 * ext4 writes the edges of a zeroed range there, and XFS the data that it cannot write in place
 * (shared blocks). While direct I/O is on, nothing writes to a device in this way.
 */
static inline bool
image_may_cache(const struct image *image)
{
	return image->backing.page_cache &&
	       (!image->backing.block_device || !atomic_load(&image->direct));
}

/* Checks whether all earlier writes are durable, after a sync has succeeded. The sync was an
 * fdatasync(), or the sync of a direct write, for which a file system may have used the page cache
 * instead. Returns 0, or -errno if earlier writes may be lost. */
static inline int
image_check_sync(struct image *image)
{
	if (!image->backing.block_device ||
	    atomic_load_explicit(&image->cached, memory_order_relaxed))
		return shared_file_lost(image->shared);
	/* Another image of this file may use the page cache, and its write-back may have failed. */
	return atomic_load_explicit(&image->shared->sync_failure, memory_order_relaxed);
}

#endif
