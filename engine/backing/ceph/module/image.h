/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An image in Ceph, open by librbd, for the module's own files. The functions are those of struct
 * rbd_module.
 */
#ifndef ENGINE_BACKING_CEPH_MODULE_IMAGE_H
#define ENGINE_BACKING_CEPH_MODULE_IMAGE_H

#include "engine/backing/ceph/rbd_module.h"

#include <pthread.h>
#include <rados/librados.h>
#include <rbd/librbd.h>

/* A client of the cluster for each image: to fence one image's server does not harm the others. */
struct rbd_image {
	rados_t cluster;
	rados_ioctx_t pool;
	rbd_image_t image;
	rbd_returned returned;
	uint64_t watch; /* handle of the watch for changes of the image */
	bool watched;
	pthread_mutex_t mutex; /* guards the member below */
	unsigned int hurries;  /* snapshots that are being made */
};

void
rbd_image_start(struct rbd_image *image, struct backing_call *call);
int
rbd_image_extents(struct rbd_image *image, uint64_t offset, uint64_t length, bool one, bool whole,
		  extent_visit visit, void *data);
int
rbd_image_changes(struct rbd_image *image, const char *since, uint64_t offset, uint64_t length,
		  extent_visit visit, void *data);
int
rbd_image_lock_owner(struct rbd_image *image, struct rbd_owner *owner);
int
rbd_image_answers(struct rbd_image *image, const char *address);
int
rbd_image_lock_acquire(struct rbd_image *image);
int
rbd_image_lock_release(struct rbd_image *image);
int
rbd_image_lock_break(struct rbd_image *image, const char *address);
int
rbd_image_snapshot_create(struct rbd_image *image, const char *name);
int
rbd_image_snapshot_remove(struct rbd_image *image, const char *name);
int
rbd_image_snapshots(struct rbd_image *image, rbd_snapshot_visit visit, void *data);

/* Returns whether the cluster has a snapshot of that name now: 0; -ENOENT; or -errno. */
int
rbd_image_snapshot_check(struct rbd_image *image, const char *name);

#endif
