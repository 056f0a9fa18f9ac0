/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exclusive lock of an image in Ceph.
 */
#include "engine/backing/ceph/module/image.h"

#include "common/cleanup.h"

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

/* ---- whether a client is alive */

/* Notifies all clients that have the image open, as librbd does when it has changed: each answers
 * as soon as it knows. */
static int
notify_all(struct rbd_image *image, struct notify_ack_t **answers, size_t *count)
{
	struct notify_timeout_t *silent = NULL;
	char *CLEANUP_FREE object = NULL;
	char *reply = NULL, id[64];
	size_t length = 0, silent_count = 0;
	int r = rbd_get_id(image->image, id, sizeof(id));

	*count = 0;
	if (r < 0)
		return r;
	if (asprintf(&object, "rbd_header.%s", id) < 0)
		return -ENOMEM;
	r = rados_notify2(image->pool, object, "", 0, RBD_ANSWER_SECONDS * 1000, &reply, &length);
	/* Some are silent; the others have answered. */
	if (r >= 0 || r == -ETIMEDOUT)
		r = reply ? 0 : -EIO;
	if (r == 0)
		r = rados_decode_notify_response(reply, length, answers, count, &silent,
						 &silent_count);
	if (r == 0)
		rados_free_notify_response(NULL, 0, silent);
	rados_buffer_free(reply);
	return r;
}

int
rbd_image_answers(struct rbd_image *image, const char *address)
{
	rbd_image_watcher_t watchers[WATCHERS];
	size_t count = WATCHERS, answered;
	struct notify_ack_t *answers = NULL;
	int r = rbd_watchers_list(image->image, watchers, &count), found = 0;

	/* With more, it is not looked for, and counts as alive. */
	if (r < 0)
		return r == -ERANGE ? 1 : r;
	r = notify_all(image, &answers, &answered);
	for (size_t i = 0; r == 0 && i < count; i++) {
		for (size_t j = 0; j < answered; j++)
			found |= strcmp(watchers[i].addr, address) == 0 &&
				 answers[j].notifier_id == (uint64_t)watchers[i].id;
	}
	if (r == 0)
		rados_free_notify_response(answers, answered, NULL);
	rbd_watchers_list_cleanup(watchers, count);
	return r < 0 ? r : found;
}

/* ---- taking it */

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
