/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The snapshots that an image in Ceph has of its own.
 */
#include "engine/backing/ceph/module/image.h"

#include "common/clock.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* How long the monitors may take to give a snapshot its number, in seconds. librbd has all of the
 * image's writes wait for it, however long ago the request for the snapshot was given up. */
#define NUMBER_SECONDS 10

/* The limit counts for what is sent to the monitors meanwhile. Several snapshots may be under way,
 * of several exports of the image. Without memory for it, there is no limit. */
static void
hurry(struct rbd_image *image, bool on)
{
	char text[16];

	pthread_mutex_lock(&image->mutex);
	if (on)
		image->hurries++;
	else
		image->hurries--;
	snprintf(text, sizeof(text), "%d", image->hurries > 0 ? NUMBER_SECONDS : 0);
	rados_conf_set(image->cluster, "rados_mon_op_timeout", text);
	pthread_mutex_unlock(&image->mutex);
}

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
static int
create(struct rbd_image *image, const char *name)
{
	const int64_t limit = clock_ms(CLOCK_MONOTONIC) + NUMBER_SECONDS * 1000;
	uint64_t id;
	int r = rbd_snap_create2(image->image, name, RBD_SNAP_CREATE_SKIP_QUIESCE, ignore_progress,
				 NULL);

	/* With this flag, librbd 16.2 calls failures successes (seen: EDQUOT). Without it, it tells
	 * what is wrong; but not if writes would wait as long again. */
	if (r < 0 || rbd_snap_get_id(image->image, name, &id) != -ENOENT)
		return r;
	if (clock_ms(CLOCK_MONOTONIC) >= limit)
		return -ETIMEDOUT;
	return rbd_snap_create2(image->image, name, RBD_SNAP_CREATE_IGNORE_QUIESCE_ERROR,
				ignore_progress, NULL);
}

int
rbd_image_snapshot_create(struct rbd_image *image, const char *name)
{
	int r;

	hurry(image, true);
	r = create(image, name);
	hurry(image, false);
	return r;
}

int
rbd_image_snapshot_remove(struct rbd_image *image, const char *name)
{
	return rbd_snap_remove(image->image, name);
}

/* ---- those that there are */

/* Lists the snapshots of an image. Returns their number, and the caller frees *list with
 * rbd_snap_list_end() and free(); or -errno. */
static int
list_snapshots(rbd_image_t image, rbd_snap_info_t **list)
{
	int most = 64, count;

	do {
		*list = calloc((size_t)most, sizeof(**list));
		if (!*list)
			return -ENOMEM;
		count = rbd_snap_list(image, *list, &most);
		if (count < 0)
			free(*list);
	} while (count == -ERANGE); /* `most` is enough now */
	return count;
}

static void
free_list(rbd_snap_info_t *list, int count)
{
	/* Its end is an entry without a name, which an empty list does not have. */
	if (count > 0)
		rbd_snap_list_end(list);
	free(list);
}

int
rbd_image_snapshots(struct rbd_image *image, rbd_snapshot_visit visit, void *data)
{
	rbd_snap_info_t *list;
	int count = list_snapshots(image->image, &list);

	if (count < 0)
		return count;
	for (int i = 0; i < count; i++) {
		struct timespec made = {0};

		rbd_snap_get_timestamp(image->image, list[i].id, &made);
		visit(data, &(struct rbd_snapshot_facts){list[i].name, list[i].id, list[i].size,
							 (int64_t)made.tv_sec});
	}
	free_list(list, count);
	return 0;
}

/* By another handle, which reads the image's header now. */
int
rbd_image_snapshot_check(struct rbd_image *image, const char *name)
{
	char id[64];
	rbd_image_t fresh;
	uint64_t number;
	int r = rbd_get_id(image->image, id, sizeof(id));

	if (r >= 0)
		r = rbd_open_by_id_read_only(image->pool, id, &fresh, NULL);
	if (r < 0)
		return r;
	r = rbd_snap_get_id(fresh, name, &number);
	rbd_close(fresh);
	return r;
}
