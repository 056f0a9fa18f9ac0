/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an image consists of; for the engine's own files.
 */
#ifndef ENGINE_IO_IMAGE_STATE_H
#define ENGINE_IO_IMAGE_STATE_H

#include "engine/backing/backing.h"
#include "engine/image_config.h"
#include "engine/io/arena.h"
#include "engine/io/shared_file.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

struct backend;
struct pool;
struct range_lock;

struct image {
	/* Constant after image_open(). */
	struct backing backing;
	struct image_config config;
	const struct backend *backend;
	struct shared_file *shared; /* with all images of the file */
	struct range_lock *ranges;  /* in .shared */
	struct pool *pool;          /* of its contexts */
	unsigned int sector_size;
	const char *sector_reason; /* why it is 1, though nobody asked for that; else "" */
	char engine_reason[REASON_MAX];
	char poll_reason[REASON_MAX];

	/* Read by every operation, written by the control path only. */
	alignas(64) _Atomic uint64_t size; /* of the window */
	_Atomic uint64_t direct_end; /* in the file: from here on, the page cache is used in any
					case; see direct_end() */
	_Atomic bool direct;
	_Atomic bool cached;              /* the page cache may have data that was acknowledged: see
					     image_may_cache() */
	_Atomic unsigned int unsupported; /* ways of space.c that the backing has refused */

	/* Held while direct I/O is switched, which takes as long as writing back does. */
	alignas(64) pthread_mutex_t switching;

	/* Held while the lock on the file is taken: a server that was killed may have to be waited
	 * for. */
	pthread_mutex_t locking;

	/* Held for moments only: connecting and asking for the status never wait for I/O. */
	pthread_mutex_t facts;
	char direct_reason[REASON_MAX]; /* guarded by facts, as what follows */
	bool locked, locked_writable;

	struct arena arena; /* for the pool's contexts */
};

/* No write may be under way where direct_end is or comes to be. */
void
image_set_size(struct image *image, uint64_t size);

/*
 * Whether that is so from the start.  With direct I/O, too, a file system may write into the page
 * cache: the edges of zeroes that it makes (ext4), and what it can't write in place (XFS, of shared
 * blocks).  A device is not written to by that way as long as direct I/O is on.
 */
bool
image_may_cache(const struct image *image);

#endif
