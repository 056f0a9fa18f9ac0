/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps the maps of a topmost layer in its file, so that neither a kill nor a power cut ever makes
 * a granule appear whose bytes are not there.
 *
 *	the first change of an opening is to come
 *	-> layer_keeper_enter(): the header has the number of this opening
 *	a change of a whole granule, or a copy of one, is in the file
 *	-> layer_keeper_mark(): its bit is in the recent map, in the page cache, then in memory
 *	-> the change is acknowledged; a kill loses nothing from here on
 *	a flush, or a change with FUA
 *	-> layer_keeper_commit(): the file is synced, then the bits of what was marked before that
 *	   are written to the stable map, then the file is synced once more
 *	-> the flush is acknowledged; a power cut loses nothing from here on
 *	a sync that has failed
 *	-> the recent map may tell of granules whose bytes were lost: it does not count any more,
 *	   and the next server begins with the stable map, the state of some flush
 *	the end
 *	-> layer_keeper_end(): all is in the stable map, and the header says so
 *
 * The file has space for a block of the stable map, in both generations, before the first mark in
 * it: a full disk fails the change, and not a later flush.
 *
 * Bitmaps, rather than a journal: a mark is one write of 512 bytes, and opening replays nothing.
 * The file system's own extents would need no map at all, but tell unwritten from written ones only
 * after a sync, and a copy of the file with cp(1) loses them.
 *
 * All functions may wait for the file system.
 */
#ifndef ENGINE_LAYER_LAYER_KEEPER_H
#define ENGINE_LAYER_LAYER_KEEPER_H

#include "engine/layer/layer.h"

/* Granules from .first up to .end, in numbers of granules. */
struct layer_span {
	uint64_t first, end;
};

/* Adopts the recent map of the topmost layer, open as `fd`, if it counts; or else, if the layer is
 * `writable`, begins one. Returns 0, or -errno as above; -ENODATA if the kernel has no boot id. */
int
layer_keeper_begin(struct layers *layers, int fd, bool writable);

/* Draws the number of an opening, which is neither 0 nor negative. Returns 0 or -errno. */
int
layer_draw_opening(uint64_t *opening);

/* Returns whether layer_keeper_enter() has succeeded. */
static inline bool
layer_keeper_has_entered(const struct layers *layers)
{
	return atomic_load_explicit(&layers->entered, memory_order_acquire);
}

/* Writes into the header, before the first change, that the layer is changed in this opening: a
 * record of checkpoints tells by that whether another server has changed it. sync() is as for
 * layer_keeper_commit(). Returns 0 or -errno, and may be called again. */
int
layer_keeper_enter(struct layers *layers, int fd, int (*sync)(void *data), void *data);

/* Makes the topmost layer the owner of granules that are in its file, for all processes of this
 * boot; a temporary one in memory only, so that there is nothing to commit. Returns 0;
 * or -errno, and none of them is. */
int
layer_keeper_mark(struct layers *layers, int fd, const struct layer_span *spans, size_t count);

/* Returns whether layer_keeper_commit() has something to do. */
static inline bool
layer_keeper_is_stale(const struct layers *layers)
{
	return atomic_load_explicit(&layers->durable, memory_order_acquire) !=
	       atomic_load_explicit(&layers->marks, memory_order_acquire);
}

/* Returns the ticket of a request to commit, which covers all that was marked and written before.
 */
static inline uint64_t
layer_keeper_ticket(const struct layers *layers)
{
	return atomic_load_explicit(&layers->commits, memory_order_acquire);
}

/* Writes that all is in the stable map. Only after a commit, and with no change since. Returns 0 or
 * -errno. */
int
layer_keeper_end(struct layers *layers, int fd);

/* Puts all that was written and marked before the ticket on stable storage. sync() does that for
 * what was written, and returns 0 or -errno; after an error, no later sync() may succeed, because
 * what was lost would stay lost. If another thread's commit has done all of it
 * meanwhile, nothing is done. Returns 0 or -errno. */
int
layer_keeper_commit(struct layers *layers, int fd, uint64_t ticket, int (*sync)(void *data),
		    void *data);

#endif
