/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The claim of a server that writes to an image: nothing in this machine's kernel may use the
 * image, and locks do not keep the kernel away. A block device is claimed for as long as it is
 * served, in the way of file systems (O_EXCL); of a file, the server can only check its uses.
 */
#ifndef ENGINE_BACKING_FILE_CLAIM_H
#define ENGINE_BACKING_FILE_CLAIM_H

#include "engine/backing/backing.h"
#include "engine/backing/kind.h"
#include "engine/backing/file/lock.h"

#include <stdbool.h>

/*
 * Claims the backing for a server of that part of it with these options. Must come before the
 * server takes its lock, because .fd is opened anew and loses its locks. `locked`: .fd has a lock
 * to keep, so another descriptor (.claim_fd) gets the claim. A read-only server claims nothing, but
 * is warned of writers. Returns 0, or -EBUSY with *error, a sentence that names the user of the
 * image and the way out (the caller frees it).
 */
int
claim_take(struct backing *backing, const struct image_config *config, const struct lock_part *part,
	   bool writable, bool locked, char **error);

/* Says how the kernel uses the claimed part, if it has begun that since then, and the claim would
 * have refused or warned of it; else "". */
void
claim_look(const struct backing *backing, char trouble[BACKING_TROUBLE]);

/* Releases the claim. May be called again, or without a claim. */
void
claim_drop(struct backing *backing);

#endif
