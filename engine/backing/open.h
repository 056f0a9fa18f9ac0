/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens a backing, of the kind that its path names.
 */
#ifndef ENGINE_BACKING_OPEN_H
#define ENGINE_BACKING_OPEN_H

#include "engine/backing/backing.h"
#include "engine/backing/image_kind.h"
#include "engine/image_config.h"

/*
 * Starts what images of this kind need, if a process can't start it any more in its sandbox.
 * Returns 0, and the caller calls backing_release() at its end; or -errno with *error, a sentence
 * (the caller frees it).
 */
int
backing_prepare(const struct image_kind *facts, char **error);
void
backing_release(const struct image_kind *facts);

/*
 * Opens `path`. A file's is relative to `dirfd` (AT_FDCWD is allowed); `flags` are BACKING_*. Opens
 * it read-only if writing is not permitted, as losetup does; see .writable. Returns 0, and the
 * caller closes the backing with backing_close(); or returns -errno with *error, a sentence that
 * names the path (the caller frees it).
 */
int
backing_open(struct backing *backing, int dirfd, const char *path, unsigned int flags,
	     const struct image_config *config, char **error);

#endif
