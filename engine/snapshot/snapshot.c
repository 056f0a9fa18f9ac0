/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/snapshot/snapshot.h"

#include "engine/backing/image_kind.h"
#include "engine/backing/kind.h"
#include "engine/image/freeze.h"
#include "engine/io/image_state.h"
#include "engine/snapshot/copy_image.h"
#include "engine/snapshot/copy.h"
#include "engine/snapshot/scratch.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The path of the image with the snapshot's name, for messages. */
static char *
snapshot_path(const struct snapshot_order *order)
{
	char *path;

	return asprintf(&path, "%s@%s", order->image->backing.path, order->name) < 0 ? NULL : path;
}

/* The same window of the file, and the same sectors. */
static struct image_config
snapshot_config(const struct image *image)
{
	struct image_config config = image->config;

	config.sizelimit = image_size(image);
	config.sector_size = image_min_block(image);
	config.direct_io = image_direct(image) ? TRISTATE_AUTO : TRISTATE_OFF;
	config.poll = TRISTATE_OFF;
	config.discard = TRISTATE_OFF;
	config.lock = LOCK_OFF;
	config.force = TRISTATE_OFF;
	return config;
}

/* ---- snapshots of the backing's own */

/* How long the changes of all images of a moment wait, in milliseconds, if such snapshots are made;
 * for these at most cluster-timeout. In an idle cluster, Ceph takes a second for one. */
#define OWN_LIMIT_MS 10000

static int
snapshot_open_own(const struct snapshot_order *order, struct backing_snapshot *own,
		  struct image **result, char **error)
{
	struct image_config config = snapshot_config(order->image);
	struct backing backing;
	int r;

	/* The image may have another size by now, but not the snapshot. */
	config.sizelimit = order->image->config.sizelimit;
	config.direct_io = order->image->config.direct_io;
	r = order->image->backing.kind->snapshots->open(own, &config, &backing, error);
	return r < 0 ? r : image_open_backing(&backing, &config, result, error);
}

/* ---- making a copy */

static int
snapshot_prepare_copy(const struct snapshot_order *order, const struct snapshot_wish *wish,
		      const char *scratch, struct image **result, char **error)
{
	const struct copy_image_wish wanted = {order->image, order->name, scratch,
					       wish->scratch_size};
	const struct image_config config = snapshot_config(order->image);
	char *path = snapshot_path(order);

	return path ? copy_image_open(&wanted, &config, path, result, error) : -ENOMEM;
}

/* ---- making a clone */

/* Makes a file to clone the image's file into, if the file system can clone. Returns a descriptor,
 * or -errno. */
static int
snapshot_prepare_clone(struct image *image, const char *directory)
{
	const struct file_clone_range first = {
		.src_fd = image->backing.fd,
		.src_length = image->backing.cache_block,
	};
	char *CLEANUP_FREE error = NULL;
	int CLEANUP_CLOSE fd = -1;
	int r;

	if (image->backing.block_device)
		return -EOPNOTSUPP;
	fd = scratch_open(directory, &error);
	if (fd < 0)
		return fd;
	if (ioctl(fd, FICLONERANGE, &first) < 0)
		return -errno;
	/* Cloning writes dirty pages back; most of them now, while changes need not wait. */
	if (ftruncate(fd, 0) < 0)
		return -errno;
	if (fdatasync(image->backing.fd) == 0)
		return steal_fd(&fd);
	r = -errno;
	/* The kernel tells a failure only once: no later flush would know of it. */
	if (atomic_load(&image->cached))
		shared_file_record_loss(image->shared, r);
	return r;
}

static int
snapshot_open_clone(const struct snapshot_order *order, int fd, struct image **result, char **error)
{
	const struct image_config config = snapshot_config(order->image);
	char path[64], *name = snapshot_path(order);
	int r;

	if (!name)
		return -ENOMEM;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = image_open(AT_FDCWD, path, BACKING_READ_ONLY, &config, result, error);
	if (r < 0) {
		free(name);
		return r;
	}
	free((*result)->backing.path);
	(*result)->backing.path = name;
	return 0;
}

/* A copy needs to see each change before it is made; a clone does not. */
static int
snapshot_check_lock(const struct image *image, bool cloned, char **error)
{
	if (cloned || !image_others_may_write(image))
		return 0;
	return error_set(error, -EBUSY,
			 "%s: with lock=shared or off, a snapshot needs a file system that clones "
			 "files: another server may change the image, and the old data would not "
			 "be copied before; lock=exclusive keeps it out",
			 image->backing.path);
}

/* ---- the moment */

/* What one snapshot needs at the moment. */
struct preparation {
	struct image *copy; /* closed after the moment if there is a clone */
	int clone;          /* -1: the file system can't clone */
	bool cloned;
	struct backing_snapshot *own; /* instead of these; NULL: the backing makes none */
};

static int
snapshot_prepare(const struct snapshot_order *order, const struct snapshot_wish *wish,
		 struct preparation *prepared, char **error)
{
	const struct backing *backing = &order->image->backing;
	char *CLEANUP_FREE directory = NULL;
	int r;

	if (backing->layers)
		return error_set(
			error, -EOPNOTSUPP,
			"%s: a layer has no snapshots yet; stop writing to it, seal it with "
			"`nbdloop clone --seal`, and make new layers on it",
			backing->path);

	if (copy_image_is(order->image))
		return error_set(error, -EINVAL, "%s is a snapshot already", backing->path);
	if (image_size(order->image) == 0)
		return error_set(error, -EINVAL, "%s has no bytes to copy", backing->path);
	if (backing->kind->snapshots)
		return backing->kind->snapshots->prepare(backing, order->name, &prepared->own,
							 error);
	directory = scratch_directory(wish->scratch, backing->fd, backing->block_device);
	if (!directory)
		return -ENOMEM;
	r = snapshot_prepare_copy(order, wish, directory, &prepared->copy, error);
	if (r == 0)
		prepared->clone = snapshot_prepare_clone(order->image, directory);
	return r < 0 ? r : snapshot_check_lock(order->image, prepared->clone >= 0, error);
}

/* Has all backings that can make their snapshots at once. */
static int
snapshots_make_own(const struct snapshot_order orders[], struct preparation prepared[],
		   size_t count, int64_t end, char **error)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++)
		if (prepared[i].own)
			r = orders[i].image->backing.kind->snapshots->start(prepared[i].own, error);
	for (size_t i = 0; r == 0 && i < count; i++)
		if (prepared[i].own)
			r = orders[i].image->backing.kind->snapshots->await(prepared[i].own, end,
									    error);
	return r;
}

static int
snapshots_pass_moment(const struct snapshot_order orders[], struct preparation prepared[],
		      size_t count, const struct snapshot_wish *wish, char **error)
{
	struct image **CLEANUP_FREE images = calloc(count, sizeof(struct image *));
	const int64_t end = clock_ms(CLOCK_MONOTONIC) + OWN_LIMIT_MS;
	struct freeze freeze;
	bool own = false;
	int r = images ? 0 : -ENOMEM;

	for (size_t i = 0; r == 0 && i < count; i++) {
		images[i] = orders[i].image;
		own = own || prepared[i].own;
	}
	if (r == 0)
		r = own ? freeze_begin_in_time(&freeze, images, count)
			: freeze_begin(&freeze, images, count);
	if (r == -ETIMEDOUT)
		error_set(error, r,
			  "a disk or cluster has not answered for some seconds, and all changes "
			  "waited; try again%s",
			  count > 1 ? ", or make a snapshot of each export" : "");
	if (r < 0)
		return r;
	/* First what can fail: a copy that has begun is ended only with its moment over. */
	if (wish->make_first)
		r = wish->make_first(wish->data, end, error);
	if (r == 0)
		r = snapshots_make_own(orders, prepared, count, end, error);
	for (size_t i = 0; r == 0 && i < count; i++) {
		struct preparation *one = &prepared[i];

		one->cloned = !one->own && one->clone >= 0 &&
			      ioctl(one->clone, FICLONE, images[i]->backing.fd) == 0;
		if (!one->own && !one->cloned)
			copy_image_begin(one->copy, images[i]);
	}
	if (r == 0 && wish->at_moment)
		wish->at_moment(wish->data);
	freeze_end(&freeze);
	return r;
}

/* After the moment: the snapshot is the backing's own, the clone, or the copy. */
static int
snapshot_finish(struct snapshot_order *order, struct preparation *prepared, char **error)
{
	char reason[REASON_MAX];
	int r;

	if (prepared->own)
		return snapshot_open_own(order, prepared->own, &order->snapshot, error);
	if (prepared->cloned)
		return snapshot_open_clone(order, prepared->clone, &order->snapshot, error);
	/* The file system may have failed to clone at the moment. */
	r = snapshot_check_lock(order->image, false, error);
	/* The disk may have given errors when it was looked at. */
	if (r == 0 && copy_is_broken(copy_image_copy(prepared->copy), reason))
		r = error_set(error, -EIO, "%s: %s", prepared->copy->backing.path, reason);
	if (r == 0)
		order->snapshot = steal_pointer(&prepared->copy);
	return r;
}

static void
snapshots_drop(const struct snapshot_order orders[], struct preparation prepared[], size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (prepared[i].own)
			orders[i].image->backing.kind->snapshots->free(prepared[i].own);
		if (prepared[i].copy)
			image_close(prepared[i].copy);
		cleanup_close(&prepared[i].clone);
	}
	free(prepared);
}

int
snapshots_take(struct snapshot_order orders[], size_t count, const struct snapshot_wish *wish,
	       char **error)
{
	struct preparation *prepared = calloc(count, sizeof(*prepared));
	int r = prepared ? 0 : -ENOMEM;

	*error = NULL;
	for (size_t i = 0; prepared && i < count; i++)
		prepared[i].clone = -1;
	for (size_t i = 0; r == 0 && i < count; i++)
		r = snapshot_prepare(&orders[i], wish, &prepared[i], error);
	if (r == 0)
		r = snapshots_pass_moment(orders, prepared, count, wish, error);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = snapshot_finish(&orders[i], &prepared[i], error);
	if (prepared)
		snapshots_drop(orders, prepared, count);
	for (size_t i = 0; r < 0 && i < count; i++)
		image_close(steal_pointer(&orders[i].snapshot));
	return r;
}

void
snapshot_facts(const struct image *image, struct snapshot_facts *facts)
{
	struct copy *copy;

	if (!copy_image_is(image)) {
		*facts = (struct snapshot_facts){
			.method = image->backing.kind->snapshots ? image->backing.kind->facts->name
								 : "reflink"};
		return;
	}
	*facts = (struct snapshot_facts){.method = "copy"};
	copy = copy_image_copy(image);
	facts->granule = copy->granule;
	facts->written = atomic_load(&copy->scratch.written);
	facts->most = copy->scratch.most;
	copy_is_broken(copy, facts->broken);
}
