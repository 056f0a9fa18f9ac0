/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Snapshots: read-only images of what an image held at one moment, a point in the order of its
 * changes. Changes that were complete are in it, and those that begin later are not. Other
 * processes that change the file are not seen.
 *
 * A clone is a file of its own, which shares its blocks with the image's file until these change;
 * only some file systems can do that (FICLONE: XFS, btrfs). An image in Ceph has snapshots of its
 * own. Elsewhere, changes copy the old bytes first (engine/snapshot/copy.h).
 */
#ifndef ENGINE_SNAPSHOT_SNAPSHOT_H
#define ENGINE_SNAPSHOT_SNAPSHOT_H

#include "engine/image/image.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One snapshot of those that are made at one moment. */
struct snapshot_order {
	struct image *image;
	const char *name;       /* for messages, and for Ceph's name of it */
	struct image *snapshot; /* the result, which the caller closes before the image */
};

struct snapshot_wish {
	const char *scratch;   /* directory of the scratch files; NULL: that of the image's file; an
				  image in Ceph needs none */
	uint64_t scratch_size; /* the most bytes of a copy's scratch file; 0: no limit */
	/* Called first at the moment, to make what must not be newer than the snapshots, until a
	 * time of clock_ms(CLOCK_MONOTONIC). Returns 0, or -errno with *error as
	 * snapshots_take(), and then there is no moment. NULL: there is nothing to make. */
	int (*make_first)(void *data, int64_t end, char **error);
	/* Called at the moment, at which no change of the images is in flight, if all else has
	 * succeeded; NULL: nothing is. Must be quick, since changes wait. */
	void (*at_moment)(void *data);
	void *data;
};

/*
 * Makes snapshots of `count` images, at least 1, at one moment in the order of all changes
 * (engine/image/freeze.h). Changes of their files wait for a moment meanwhile, so this must not be
 * called by a thread that carries them out. Returns 0; or -errno with *error, a sentence (the
 * caller frees it; NULL: no memory), and there are no snapshots; also after at_moment() was called.
 */
int
snapshots_take(struct snapshot_order orders[], size_t count, const struct snapshot_wish *wish,
	       char **error);

struct snapshot_facts {
	const char *method;      /* "reflink", "ceph"; or "copy", which has the members below */
	unsigned int granule;    /* bytes */
	uint64_t written, most;  /* bytes of its scratch file; most 0: no limit */
	char broken[REASON_MAX]; /* why it has no contents any more, or "" */
};

/* Fills in the facts of an image that snapshots_take() has made. */
void
snapshot_facts(const struct image *snapshot, struct snapshot_facts *facts);

#endif
