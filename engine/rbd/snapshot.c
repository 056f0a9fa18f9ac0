/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The snapshots that an image in Ceph has of its own.
 */
#include "engine/rbd/image.h"

#include <errno.h>
#include <stddef.h>

static int
ignore_progress(uint64_t offset, uint64_t total, void *data)
{
	(void)offset;
	(void)total;
	(void)data;
	return 0;
}

/* librbd has no cache (module.c), so all that was acknowledged is on the OSDs. Nobody else is asked
 * to be quiet (rbd-nbd's hooks): a hook that hangs would hold up this server's changes. */
int
rbd_image_snapshot_create(struct rbd_image *image, const char *name)
{
	uint64_t id;
	int r = rbd_snap_create2(image->image, name, RBD_SNAP_CREATE_SKIP_QUIESCE, ignore_progress,
				 NULL);

	/* With this flag, librbd 16.2 calls failures successes (seen: EDQUOT). Without it, it tells
	 * what is wrong. */
	if (r == 0 && rbd_snap_get_id(image->image, name, &id) == -ENOENT)
		r = rbd_snap_create2(image->image, name, RBD_SNAP_CREATE_IGNORE_QUIESCE_ERROR,
				     ignore_progress, NULL);
	return r;
}

int
rbd_image_snapshot_remove(struct rbd_image *image, const char *name)
{
	return rbd_snap_remove(image->image, name);
}
