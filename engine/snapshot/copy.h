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

#include "engine/backing/backing.h"
#include "engine/backing/kind.h"
#include "engine/snapshot/part_reads.h"
#include "engine/snapshot/scratch.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bitmap;

/* The facts that copy_init() needs. */
struct copy_place {
	const char *name;             /* of the snapshot, for messages */
	const struct backing *source; /* a file or block device of this machine */
	uint64_t start, end;          /* the part of it, in bytes; not empty */
	uint64_t direct_end;          /* see direct_end() */
	const char *scratch;          /* directory of the scratch file */
	uint64_t scratch_size;        /* the most bytes of it; 0: no limit */
};

/* Whole granules of the copy's part of the file, in bytes, that a thread copies, and that no other
 * thread may copy meanwhile. */
struct copy_claim {
	uint64_t start, end;
	struct copy_claim *next;
};

/* The least size of a granule, in bytes: that of a page, and of most writes. A file that needs
 * larger blocks for direct I/O has larger granules. */
#define COPY_GRANULE 4096

struct copy {
	/* Constant after copy_init(). */
	char *name; /* for messages */
	/* The file, without a path, and with descriptors of its own, because a privilege that
	 * opening it needs may be gone. */
	struct backing source;
	uint64_t direct_end;  /* offset from which the page cache is always used: direct.h */
	uint64_t start, end;  /* the part of the file, in bytes */
	uint64_t base;        /* where the first granule begins, which may be before .start */
	unsigned int granule; /* bytes, a power of 2 */
	struct scratch scratch;
	struct bitmap *copied; /* from .base on */

	_Atomic bool broken;
	pthread_mutex_t mutex; /* guards the members below */
	pthread_cond_t released;
	char reason[REASON_MAX];   /* why it is broken, or "" */
	struct copy_claim *claims; /* what is being copied */
};

/* Makes a copy in which no granule is marked. Its moment is when changes begin to call copy_keep().
 * Returns 0, or -errno with *error (the caller frees it); then there is nothing to free. */
int
copy_init(struct copy *copy, const struct copy_place *place, char **error);

/* Frees all. No change and no reader may use the copy any more. */
void
copy_fini(struct copy *copy);

/* Returns whether a change of the bytes from `start` to `end` of the file may begin, since it
 * concerns no granule that is not copied yet. Never waits, and says false of a range that is too
 * long to look at here. The range must be held (engine/io/range.h). */
bool
copy_has(const struct copy *copy, uint64_t start, uint64_t end);

/* Copies what is missing of that range, or breaks the copy. After that, the change may begin.
 * `direct`: reads the file by direct I/O, where its alignment allows it, as the change writes. May
 * wait for the disk. */
void
copy_keep(struct copy *copy, bool direct, uint64_t start, uint64_t end);

/* The most changes that are copied at once, and the most bytes that one of them may touch, counted
 * in whole granules. */
#define AHEAD_CHANGES PART_READS_MAX
#define AHEAD_BYTES   (32u << 10)

struct copy_range {
	uint64_t start, end; /* of the file, in bytes; of at most AHEAD_BYTES */
};

/*
 * Copies several small ranges at once, by direct I/O. Each copy alone costs a thread two switches
 * and the disk a message; together they cost little more than one. It may leave some out: those
 * that another thread copies, and all if there is no direct I/O or no memory. So copy_keep() must
 * follow for each range, which finds nothing to do as a rule. Waits for the disk.
 */
void
copy_ahead(struct copy *copy, struct part_reads *reads, const struct copy_range *ranges,
	   unsigned int count);

/* Claims a range of the file, if nothing of it is copied or claimed. Never waits. Returns whether
 * it did; then *claim must stay where it is until copy_release(). */
bool
copy_claim_at_once(struct copy *copy, uint64_t start, uint64_t end, struct copy_claim *claim);
void
copy_release(struct copy *copy, const struct copy_claim *claims, size_t count);

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

/* Breaks the copy, whose reason is logged and kept; only the first one counts. Empties the scratch
 * file, which may wait for the disk. Any thread. */
void
copy_break(struct copy *copy, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same on an event loop, which may not wait: the scratch file keeps its room until the copy is
 * freed. */
void
copy_break_at_once(struct copy *copy, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Gives the copy up: nobody reads it any more, and changes need not wait for it. Any thread. */
void
copy_abandon(struct copy *copy);

/* Copies the reason why the copy is broken. Returns whether it is. */
bool
copy_is_broken(struct copy *copy, char reason[REASON_MAX]);

#endif
