/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The changes that wait until their ranges are copied. For each I/O context, small changes that
 * come while others are being copied are gathered, and copied together by one job of its helpers.
 */
#ifndef ENGINE_SNAPSHOT_COPIERS_H
#define ENGINE_SNAPSHOT_COPIERS_H

#include "engine/snapshot/copy.h"

#include <pthread.h>

struct copier;
struct range;

struct copiers {
	struct copy *copy;
	pthread_mutex_t mutex;  /* guards the list, not the copiers */
	struct copier *copiers; /* one for each context that has had to wait */
};

void
copiers_init(struct copiers *copiers, struct copy *copy);

/* No change may be waiting. May wait for the kernel, for milliseconds. */
void
copiers_fini(struct copiers *copiers);

/* For an observer (engine/io/observer.h), on the thread of the change's context. Returns true if
 * the change may go on. After false, the range is copied, and then the change is released. */
bool
copiers_keep(struct copiers *copiers, struct range *range);

#endif
