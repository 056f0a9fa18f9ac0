/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The module that talks to Ceph by librbd, as the engine sees it. The engine loads it when an image
 * in Ceph is opened for the first time, so that other processes have none of Ceph's libraries.
 */
#ifndef ENGINE_BACKING_CEPH_RBD_MODULE_H
#define ENGINE_BACKING_CEPH_RBD_MODULE_H

#include "engine/backing/kind.h"

/* Name of the file, and of its only symbol, a struct rbd_module. The symbol's name changes with the
 * structure. */
#define RBD_MODULE_FILE   "nbdloop-rbd.so"
#define RBD_MODULE_SYMBOL "nbdloop_rbd_module_8"

/* The most seconds that opening an image may wait for the cluster. */
#define RBD_OPEN_SECONDS 10

/* The most seconds that a living client takes to answer. */
#define RBD_ANSWER_SECONDS 5

/* Features of an image, as bits. */
#define RBD_HAS_EXCLUSIVE_LOCK (UINT64_C(1) << 2)
#define RBD_HAS_FAST_DIFF      (UINT64_C(1) << 4) /* finding extents is cheap */

struct rbd_image; /* the module's */

/* Called as done() of struct backing_call. */
typedef void (*rbd_returned)(struct backing_call *call, int result);

/* Where an image is. Strings that are not given are NULL. */
struct rbd_place {
	const char *name; /* as the user wrote it, for messages */
	const char *pool, *image;
	const char *space, *snapshot;
	const char *conf, *user, *keyring;
	bool read_only;
	unsigned int timeout; /* cluster-timeout, in seconds; the store's */
};

/* Facts that do not change while an image is open. */
struct rbd_facts {
	char identity[192]; /* the same only for the same bytes: cluster, pool, namespace, image id,
			       snapshot */
	char cluster[40];   /* the cluster's fsid */
	bool writable;
};

/* A snapshot of an image. Those that are being removed have another name. */
struct rbd_snapshot_facts {
	const char *name;
	uint64_t id;   /* higher than those of all older ones */
	uint64_t size; /* of the image then, in bytes */
	int64_t made;  /* seconds since 1970 */
};

typedef void (*rbd_snapshot_visit)(void *data, const struct rbd_snapshot_facts *snapshot);

/* The owner of an image's exclusive lock. */
struct rbd_owner {
	char address[128]; /* as Ceph names the client; "" if the lock is free */
	bool watches;      /* the cluster still hears of it */
	bool own;          /* it is this image */
};

/* Functions return 0 or -errno, and may wait for the cluster, unless a comment says otherwise. */
struct rbd_module {
	/* Connects and opens an image, whose calls end with `returned` instead of their done(). On
	 * failure, *error is a sentence with the way out (the caller frees it). */
	int (*open)(const struct rbd_place *place, rbd_returned returned, struct rbd_image **image,
		    struct rbd_facts *facts, char **error);
	/* No call may be in flight. */
	void (*close)(struct rbd_image *image);

	/* As .start() and .extents() of struct backing_kind. `whole`: whole objects of the image
	 * count as data. */
	void (*start)(struct rbd_image *image, struct backing_call *call);
	int (*extents)(struct rbd_image *image, uint64_t offset, uint64_t length, bool one,
		       bool whole, extent_visit visit, void *data);

	int64_t (*size)(struct rbd_image *image);
	int (*features)(struct rbd_image *image, uint64_t *features);
	/* Has `updated` called whenever the size, the features or the snapshots may have changed,
	 * or another client may have broken the lock, until close(); on any thread,
	 * one of librbd's that must not wait. Only for an image that is open for writing: Ceph
	 * tells others nothing. */
	int (*watch)(struct rbd_image *image, void (*updated)(void *data), void *data);

	/* The exclusive lock. */
	int (*lock_owner)(struct rbd_image *image, struct rbd_owner *owner);
	/* Asks a client that watches the image for a sign of life, for at most RBD_ANSWER_SECONDS.
	 * Returns 1: it has answered; 0: it has not; or -errno. */
	int (*answers)(struct rbd_image *image, const char *address);
	int (*lock_acquire)(struct rbd_image *image);
	int (*lock_release)(struct rbd_image *image);
	/* Has the cluster refuse all later requests of that owner, then takes its lock away. */
	int (*lock_break)(struct rbd_image *image, const char *address);

	/* Makes a snapshot of what the image holds, which has all that was acknowledged before, or
	 * removes one: by itself, or by the owner of the exclusive lock. After a failure to make
	 * it, it may be there, or come later. */
	int (*snapshot_create)(struct rbd_image *image, const char *name);
	int (*snapshot_remove)(struct rbd_image *image, const char *name);
	/* Visits all snapshots of the image, as far as it was told of them, in any order. */
	int (*snapshots)(struct rbd_image *image, rbd_snapshot_visit visit, void *data);
	/* As .extents(), but what has changed since a snapshot, byte by byte, and is no hole then;
	 * all else is one. -ENOENT: there is no such snapshot, and what was visited may be too
	 * little. */
	int (*changes)(struct rbd_image *image, const char *since, uint64_t offset, uint64_t length,
		       extent_visit visit, void *data);
};

#endif
