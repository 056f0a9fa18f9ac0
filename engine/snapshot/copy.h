/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copy-before-write: what a part of a file held at one moment. Whoever changes the file has the old
 * bytes copied into a scratch file first. The reader takes copied granules from there, and all
 * others from the file.
 *
 * A granule is copied once, as a whole, and marked before the change begins. So a reader needs no
 * lock, and no change waits for readers: a reader that finds a granule of the file unmarked after
 * it has read it, has read it before any change.
 *
 * If a granule can't be copied, the copy breaks: it has no contents any more, and the change goes
 * on. This is marked before the change begins, too.
 */
#ifndef ENGINE_SNAPSHOT_COPY_H
#define ENGINE_SNAPSHOT_COPY_H

#include "engine/backing/kind.h"
#include "engine/snapshot/copy_state.h"

#include <stdbool.h>
#include <stdint.h>

/* The facts that copy_init() needs. */
struct copy_place {
	const char *name;             /* of the snapshot, for messages */
	const struct backing *source; /* a file or block device of this machine */
	uint64_t start, end;          /* the part of it, in bytes; not empty */
	uint64_t direct_end;          /* see direct_end() */
	const char *scratch;          /* directory of the scratch file */
	uint64_t scratch_size;        /* the most bytes of it; 0: no limit */
};

/* Makes a copy in which no granule is marked. Its moment is when changes begin to call copy_keep().
 * Returns 0, or -errno with *error (the caller frees it); then there is nothing to free. */
int
copy_init(struct copy *copy, const struct copy_place *place, char **error);

/* Frees all. No change and no reader may use the copy any more. */
void
copy_fini(struct copy *copy);

/* Whether a change of the bytes from `start` to `end` of the file may begin, since it concerns no
 * granule that is not copied yet. Never waits, and says false of a range that is too long to look
 * at here. The range must be held (engine/io/range.h). */
bool
copy_has(const struct copy *copy, uint64_t start, uint64_t end);

/* Copies what is missing of that range, or breaks the copy. After that, the change may begin.
 * `direct`: reads the file by direct I/O, where its alignment allows it, as the change writes. May
 * wait for the disk. */
void
copy_keep(struct copy *copy, bool direct, uint64_t start, uint64_t end);

/* Reads bytes as they were, of a range within the copy's part. Returns `length`, or -EIO if the
 * copy is broken. May wait for the disk. */
int
copy_read(struct copy *copy, bool direct, void *buffer, size_t length, uint64_t offset);

/* The file was found to end at `end`, in bytes: breaks the copy unless it has all beyond. No change
 * is in flight. */
void
copy_lose_end(struct copy *copy, uint64_t end);

/* As .extents() of struct backing_kind. */
int
copy_extents(struct copy *copy, uint64_t offset, uint64_t length, bool one, extent_visit visit,
	     void *data);

/* Breaks the copy, whose reason is logged and kept; only the first one counts. Any thread. */
void
copy_break(struct copy *copy, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Gives the copy up: nobody reads it any more, and changes need not wait for it. Any thread. */
void
copy_abandon(struct copy *copy);

/* Copies the reason why the copy is broken. Returns whether it is. */
bool
copy_is_broken(struct copy *copy, char reason[REASON_MAX]);

#endif
