/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A moment without changes: those in flight are complete, and new ones wait until the moment is
 * over. Reads go on. It is one moment for several images: what was acknowledged before it is in all
 * of them, and what is submitted after it is in none.
 */
#ifndef ENGINE_IMAGE_FREEZE_H
#define ENGINE_IMAGE_FREEZE_H

#include "engine/io/range.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct image;

/* A range over the whole file of an image. */
struct frozen {
	struct range range;
	struct range_lock *ranges;
	pthread_mutex_t mutex; /* guards .done */
	pthread_cond_t granted;
	bool done;
};

/* How long the images of one moment wait for each other, in seconds. */
#define FREEZE_LIMIT 5

struct freeze {
	size_t count; /* of files */
	struct frozen *files;
	struct frozen first; /* the files' memory, if there is one only */
};

/*
 * Begins a moment for `count` images, at least 1; images of the same file, or the same image twice,
 * are allowed. Waits for the changes in flight, and so for the disk. Not on an event loop. The
 * caller ends the moment soon with freeze_end(), and must not begin another one, of any image,
 * before that. Returns 0; -ENOMEM; or -ETIMEDOUT, since changes in flight have not completed within
 * FREEZE_LIMIT. A moment of one image waits without a limit, and always succeeds.
 */
int
freeze_begin(struct freeze *freeze, struct image *const *images, size_t count);

/* The same, but a moment of one image, too, begins within FREEZE_LIMIT, or not at all. */
int
freeze_begin_in_time(struct freeze *freeze, struct image *const *images, size_t count);

void
freeze_end(struct freeze *freeze);

#endif
