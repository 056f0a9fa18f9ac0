/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Observers of a file: each change of it (write, discard, zero; through any image of this process)
 * passes them when it holds its range and before any of it is planned. An observer may note the
 * change, and may let it wait until something is done that must come first: a copy is made, a
 * record is durable.
 *
 * The images of a file share its observers, as they share its ranges. A file without observers pays
 * nothing: whether it has some is a bit of the word that each change reads for its range anyway
 * (range.h).
 */
#ifndef ENGINE_IO_OBSERVER_H
#define ENGINE_IO_OBSERVER_H

#include <stdbool.h>
#include <stdint.h>

struct range;
struct range_lock;

/* Embedded by its owner. */
struct observer {
	/*
	 * Called on the thread of the change's context, never for two overlapping changes at once.
	 * The change may alter the file's bytes (not those of an image's window) from range->start
	 * up to range->end: a range covers whole blocks, which may be more than the client wrote.
	 *
	 * Returns true if the change may go on. After false, it waits until observer_release(),
	 * which may come at once, on any thread. Must neither add nor remove observers, nor block:
	 * a hosted context's thread may be an event loop, and has helpers for work that blocks,
	 * ioctx_help(io_of_range(range)->ctx, job).
	 *
	 * The change may still fail, or not be carried out because its client has vanished. What is
	 * tried again under the same range does not come here again.
	 */
	bool (*change)(struct observer *observer, struct range *range);

	/* Called when the file is found to end at `end`, in bytes, and an image of it was larger
	 * before, or has no place there. No change is in flight; nothing may wait for one. NULL:
	 * nothing is. */
	void (*truncated)(struct observer *observer, uint64_t end);

	struct observer *next; /* private */
};

/* Lets a change go on, to the next observer or to its image, on the thread of its context. Any
 * thread may call this, once for each false of change(), and must not touch the range after it. */
void
observer_release(struct range *range);

/* Adds or removes an observer of a file. The caller must hold the range of the whole file
 * (engine/image/freeze.h). The observer then sees each change as a whole or not at all, and no
 * change waits for an observer that is gone. */
void
observer_add(struct range_lock *lock, struct observer *observer);
void
observer_remove(struct range_lock *lock, struct observer *observer);

/* Tells the observers of a file where it ends now. Only while the caller holds the range of the
 * whole file. */
void
observers_tell_end(const struct range_lock *lock, uint64_t end);

/* For io_before_change() (io.c), which every change passes: asks the observers, or, if one of them,
 * range->observer, has released the change, those after it. Returns whether the change may go on
 * now. Otherwise range->granted() is called when this function has to be called again. */
bool
observers_ask(const struct range_lock *lock, struct range *range);

#endif
