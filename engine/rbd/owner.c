/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exclusive lock of an image in Ceph.
 */
#include "engine/rbd/image.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most clients that watch one image at a time; with more, the owner counts as watching. */
#define WATCHERS 64

static int
is_watching(struct rbd_image *image, const char *address, bool *watches)
{
	rbd_image_watcher_t watchers[WATCHERS];
	size_t count = WATCHERS;
	int r = rbd_watchers_list(image->image, watchers, &count);

	*watches = r == -ERANGE;
	if (r < 0)
		return r == -ERANGE ? 0 : r;
	for (size_t i = 0; i < count; i++)
		*watches = *watches || strcmp(watchers[i].addr, address) == 0;
	rbd_watchers_list_cleanup(watchers, count);
	return 0;
}

int
rbd_image_lock_owner(struct rbd_image *image, struct rbd_owner *owner)
{
	rbd_lock_mode_t mode;
	char *owners[1];
	size_t count = 1;
	int is_owner = 0;
	int r = rbd_lock_get_owners(image->image, &mode, owners, &count);

	*owner = (struct rbd_owner){0};
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	if (count > 0) {
		snprintf(owner->address, sizeof(owner->address), "%s", owners[0]);
		rbd_lock_get_owners_cleanup(owners, count);
		r = is_watching(image, owner->address, &owner->watches);
	}
	if (r == 0)
		r = rbd_is_exclusive_lock_owner(image->image, &is_owner);
	owner->own = is_owner;
	return r;
}

int
rbd_image_lock_acquire(struct rbd_image *image)
{
	return rbd_lock_acquire(image->image, RBD_LOCK_MODE_EXCLUSIVE);
}

int
rbd_image_lock_release(struct rbd_image *image)
{
	return rbd_lock_release(image->image);
}

int
rbd_image_lock_break(struct rbd_image *image, const char *address)
{
	return rbd_lock_break(image->image, RBD_LOCK_MODE_EXCLUSIVE, address);
}
