/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Snapshots: read-only images of what an image held at one moment, a point in the order of its
 * changes. Changes that were complete are in it, and those that begin later are not. Other
 * processes that change the file are not seen.
 *
 * A clone is a file of its own, which shares its blocks with the image's file until these change;
 * only some file systems can do that (FICLONE: XFS, btrfs). Elsewhere, changes copy the old bytes
 * first (engine/snapshot/copy.h).
 */
#ifndef ENGINE_SNAPSHOT_SNAPSHOT_H
#define ENGINE_SNAPSHOT_SNAPSHOT_H

#include "engine/image/image.h"

#include <stdbool.h>
#include <stdint.h>

struct snapshot_wish {
	const char *name;      /* for messages */
	const char *scratch;   /* directory of the scratch file; NULL: that of the image's file */
	uint64_t scratch_size; /* the most bytes of a copy's scratch file; 0: no limit */
};

/*
 * Makes a snapshot of the image. Changes of its file wait for a moment meanwhile, so this must not
 * be called by a thread that carries them out. Returns 0 with *snapshot, an image that the caller
 * closes with image_close(), before the first one; or -errno with *error, a sentence (the caller
 * frees it).
 */
int
snapshot_take(struct image *image, const struct snapshot_wish *wish, struct image **snapshot,
	      char **error);

struct snapshot_facts {
	bool clone;              /* else a copy, which has the members below */
	unsigned int granule;    /* bytes */
	uint64_t written, most;  /* bytes of its scratch file; most 0: no limit */
	char broken[REASON_MAX]; /* why it has no contents any more, or "" */
};

/* Fills in the facts of an image that snapshot_take() has made. */
void
snapshot_facts(const struct image *snapshot, struct snapshot_facts *facts);

#endif
