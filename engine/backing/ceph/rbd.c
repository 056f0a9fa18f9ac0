/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/ceph/rbd.h"

#include "engine/backing/backing.h"
#include "engine/backing/ceph/rbd_checkpoint.h"
#include "engine/backing/ceph/rbd_lock.h"
#include "engine/backing/ceph/rbd_pending.h"
#include "engine/backing/ceph/rbd_search.h"
#include "engine/backing/ceph/rbd_size.h"
#include "engine/backing/ceph/rbd_snapshot.h"
#include "engine/backing/ceph/rbd_store.h"

#include "common/clock.h"
#include "common/error.h"
#include "common/json.h"
#include "engine/image_config.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void
rbd_close(struct backing *backing)
{
	rbd_store_put(rbd_store_of(backing));
	backing->state = NULL;
	backing->identity = NULL;
	free(backing->path);
	backing->path = NULL;
}

static int64_t
rbd_size(const struct backing *backing)
{
	const struct rbd_store *store = rbd_store_of(backing);

	return store->module->size(store->image);
}

static int64_t
rbd_told_size(const struct backing *backing)
{
	return (int64_t)atomic_load(&rbd_store_of(backing)->size);
}

static bool
rbd_same(const struct backing *a, const struct backing *b)
{
	return strcmp(a->identity, b->identity) == 0;
}

/* ---- the first bytes */

static ssize_t
rbd_peek(const struct backing *backing, void *buffer, size_t length, uint64_t offset)
{
	struct rbd_waiter waiter;

	rbd_waiter_init(&waiter, &(struct backing_call){.op = CALL_READ,
							.offset = offset,
							.length = length,
							.buffer = buffer});
	rbd_store_start(backing, &waiter.call);
	return rbd_waiter_await(&waiter);
}

/* A search for holes asks the cluster, as a read does, so it never saves time. */
static bool
rbd_have_holes(const struct backing *backing)
{
	(void)backing;
	return false;
}

/* ---- the lock */

/* Returns whether a writer takes the lock. */
static bool
is_exclusive(const struct image_config *config)
{
	return lock_resolve(config->lock, true) == LOCK_EXCLUSIVE;
}

static int
rbd_lock_check(const struct backing *backing, const struct image_config *config,
	       const struct lock_part *part, bool writable, char **error)
{
	struct rbd_predecessor predecessor;
	int r = rbd_predecessor_parse(backing->path, config->ceph_fence, &predecessor, error);

	(void)part;
	if (r < 0)
		return r;
	if (config->ceph_lock == CEPH_LOCK_START && !is_exclusive(config))
		return error_set(
			error, -EINVAL,
			"%s: ceph-lock=start is not possible with lock=shared or off, which take no lock",
			backing->path);
	if (config->ceph_fence &&
	    (!writable || !is_exclusive(config) || config->force == TRISTATE_ON))
		return error_set(
			error, -EINVAL,
			"%s: ceph-fence=%s needs write access and the image's lock, and cannot be combined with force=on, which fences any client",
			backing->path, config->ceph_fence);
	if (config->lock == LOCK_EXCLUSIVE && !writable)
		return error_set(
			error, -EOPNOTSUPP,
			"%s: lock=exclusive is not possible for a reader of an image in Ceph, which can't keep writers away; "
			"a snapshot does not change, and lock=auto or shared takes no lock",
			backing->path);
	if (!writable || !is_exclusive(config) ||
	    rbd_has(rbd_store_of(backing), RBD_HAS_EXCLUSIVE_LOCK))
		return 0;
	return error_set(
		error, -EOPNOTSUPP,
		"%s: the image has no exclusive lock, which keeps other writers away; `rbd feature enable` adds the feature "
		"exclusive-lock, and with lock=shared or off the image is written to without it",
		backing->path);
}

/* Unless it is wanted at the start, the lock itself is taken before the first change. */
static int
rbd_lock(struct backing *backing, const struct image_config *config, const struct lock_part *part,
	 bool writable, bool locked, char **error)
{
	struct rbd_store *store = rbd_store_of(backing);
	struct rbd_predecessor predecessor;
	int r = rbd_lock_check(backing, config, part, writable, error);

	(void)locked;
	if (r < 0 || !writable)
		return r;
	if (config->force == TRISTATE_ON)
		atomic_store(&store->force, true);
	if (!is_exclusive(config))
		return 0;
	atomic_store(&store->exclusive, true);
	if (config->ceph_lock != CEPH_LOCK_START && !config->ceph_fence)
		return 0;
	r = rbd_predecessor_parse(backing->path, config->ceph_fence, &predecessor, error);
	return r < 0 ? r : rbd_lock_take(store, &predecessor, error);
}

/* Another export of the image may still need it. */
static void
rbd_unlock(struct backing *backing)
{
	(void)backing;
}

static bool
rbd_is_fenced(const struct backing *backing)
{
	return atomic_load(&rbd_store_of(backing)->fenced);
}

static void
rbd_stop_waiting(const struct backing *backing)
{
	rbd_lock_give_up(rbd_store_of(backing));
}

/* The next owner of the lock fences this one, if it has not released the lock. */
static bool
store_may_be_left(const struct rbd_store *store)
{
	return atomic_load(&store->exclusive) || !store->facts.writable;
}

/* With a snapshot, the image that it is of is open until the snapshot is removed. */
static bool
rbd_may_be_left(const struct backing *backing)
{
	const struct rbd_store *store = rbd_store_of(backing);

	return store_may_be_left(store) && (!store->origin || store_may_be_left(store->origin));
}

/* ---- snapshots */

static int
prepare_snapshot(const struct backing *backing, const char *label,
		 struct backing_snapshot **snapshot, char **error)
{
	return rbd_snapshot_prepare(rbd_store_of(backing), label, false, snapshot, error);
}

static int
open_snapshot(struct backing_snapshot *snapshot, const struct image_config *config,
	      struct backing *opened, char **error)
{
	struct rbd_store *origin = rbd_snapshot_origin(snapshot);
	char *path;
	int r;

	if (asprintf(&path, "%s@%s", origin->path, rbd_snapshot_name(snapshot)) < 0)
		return -ENOMEM;
	r = backing_rbd.open(opened, AT_FDCWD, path, BACKING_READ_ONLY, config, error);
	free(path);
	if (r < 0)
		return r;
	rbd_store_remove_at_end(rbd_store_of(opened), origin);
	rbd_snapshot_keep(snapshot);
	return 0;
}

static const struct backing_snapshots snapshots = {
	.prepare = prepare_snapshot,
	.start = rbd_snapshot_start,
	.await = rbd_snapshot_await,
	.open = open_snapshot,
	.free = rbd_snapshot_free,
};

/* ---- checkpoints */

static int
prepare_checkpoint(const struct backing *backing, const char *name,
		   struct backing_snapshot **snapshot, char **error)
{
	return rbd_snapshot_prepare(rbd_store_of(backing), name, true, snapshot, error);
}

static const struct backing_checkpoints checkpoints = {
	.list = rbd_checkpoints_list,
	.edition = rbd_checkpoints_edition,
	.prepare = prepare_checkpoint,
	.keep = rbd_snapshot_keep,
	.remove = rbd_snapshot_remove_checkpoint,
	.await_removal = rbd_snapshot_await_removal,
	.changes = rbd_search_changes,
};

/* ---- the status */

static void
put_features(struct json *json, uint64_t features)
{
	static const char *const names[] = {"layering",   "striping",   "exclusive-lock",
					    "object-map", "fast-diff",  "deep-flatten",
					    "journaling", "data-pool",  "operations",
					    "migrating",  "non-primary"};

	json_array_begin(json, "features");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (features & (UINT64_C(1) << i))
			json_put_string(json, NULL, names[i]);
	}
	json_array_end(json);
}

/* Writes since when requests wait for the cluster, or null. */
static void
put_waiting(struct json *json, struct rbd_store *store)
{
	int64_t age = rbd_pending_age(store);
	time_t since = clock_seconds(CLOCK_REALTIME) - (time_t)(age / 1000);
	char text[32];
	struct tm parts;

	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&since, &parts));
	json_put_string(json, "waiting_since", age > 0 ? text : NULL);
}

/* Writes the address of the client that has the lock, or null if that is not known. */
static void
put_lock_address(struct json *json, struct rbd_store *store)
{
	char owner[sizeof(store->owner)];

	pthread_mutex_lock(&store->mutex);
	memcpy(owner, store->owner, sizeof(owner));
	pthread_mutex_unlock(&store->mutex);
	json_put_string(json, "lock_address",
			owner[0] && !atomic_load(&store->fenced) ? owner : NULL);
}

static void
rbd_put_status(const struct backing *backing, struct json *json)
{
	struct rbd_store *store = rbd_store_of(backing);

	json_object_begin(json, "ceph");
	json_put_string(json, "cluster", store->facts.cluster);
	json_put_string(json, "pool", store->name.pool);
	json_put_string(json, "namespace", store->name.space ? store->name.space : "");
	json_put_string(json, "image", store->name.image);
	json_put_string(json, "snapshot", store->name.snapshot ? store->name.snapshot : "");
	put_features(json, atomic_load(&store->features));
	json_put_bool(json, "lock_owner",
		      atomic_load(&store->held) && !atomic_load(&store->fenced));
	put_lock_address(json, store);
	json_put_bool(json, "fenced", atomic_load(&store->fenced));
	json_put_uint(json, "cluster_timeout", store->timeout);
	put_waiting(json, store);
	json_object_end(json);
}

/* ---- the module */

/* From this size on, in bytes, memory still goes back at once. */
#define MAPPED_MIN (16 << 20)

/* Guards `loaded`. */
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static const struct rbd_module *loaded;

/* The caller holds the mutex. Returns the module, which stays loaded until the process ends; or
 * NULL with *error, a sentence that begins with `path` and has the way out. The caller frees it. */
static const struct rbd_module *
module_load(const char *path, char **error)
{
	/* For a build that is not installed. */
	const char *chosen = secure_getenv("NBDLOOP_MODULES");
	char *file;
	void *library;
	const struct rbd_module *module;

	if (asprintf(&file, "%s/" RBD_MODULE_FILE,
		     chosen && chosen[0] ? chosen : MODULE_DIRECTORY) < 0)
		return NULL;
	/* Never closed: Ceph's libraries leave threads and handlers behind. */
	library = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
#ifdef __GLIBC__
	/* Ceph's library allocates and frees memory for the data of each request. With nbdloopd's
	 * own setting, large memory goes back to the kernel at once, which costs a page fault for
	 * each 4 KiB again. So the process keeps it, as a server with swap does anyway. */
	if (library) {
		mallopt(M_MMAP_THRESHOLD, MAPPED_MIN);
		mallopt(M_TRIM_THRESHOLD, INT_MAX);
	}
#endif
	module = library ? dlsym(library, RBD_MODULE_SYMBOL) : NULL;
	free(file);
	if (!module)
		error_set(
			error, -ENOENT,
			"%s: images in Ceph need nbdloop's module for them, which can't be loaded: %s; "
			"it is Debian's package nbdloop-rbd, or configure --with-rbd builds it",
			path, dlerror());
	return module;
}

/* ---- opening */

static int
get_store(const char *path, unsigned int flags, const struct image_config *config,
	  struct rbd_store **store, char **error)
{
	const struct rbd_module *module;
	struct rbd_name name;
	int r;

	pthread_mutex_lock(&loading);
	if (!loaded)
		loaded = module_load(path, error);
	module = loaded;
	pthread_mutex_unlock(&loading);
	r = module ? rbd_name_parse(path, &name, error) : -ENOENT;
	if (r < 0)
		return r;
	r = rbd_store_get(module,
			  &(struct rbd_place){
				  .name = path,
				  .pool = name.pool,
				  .image = name.image,
				  .space = name.space,
				  .snapshot = name.snapshot,
				  .conf = config->ceph_conf,
				  .user = config->ceph_user,
				  .keyring = config->ceph_keyring,
				  .timeout = config->cluster_timeout,
				  .read_only = flags & BACKING_READ_ONLY,
			  },
			  store, error);
	free(name.text);
	return r;
}

static int
rbd_open(struct backing *backing, int dirfd, const char *path, unsigned int flags,
	 const struct image_config *config, char **error)
{
	struct rbd_store *store = NULL;
	int r = get_store(path, flags, config, &store, error);

	(void)dirfd;
	if (r < 0)
		return r;
	*backing = (struct backing){
		.kind = &backing_rbd,
		.path = strdup(path),
		.state = store,
		.identity = store->facts.identity,
		.fd = -1,
		.direct_fd = -1,
		.claim_fd = -1,
		.writable = store->facts.writable,
		.slow_zero = true,
		.block_size = 1,
	};
	snprintf(backing->direct_reason, REASON_MAX, "the image is in Ceph");
	if (!backing->writable && !(flags & BACKING_READ_ONLY))
		snprintf(backing->read_only_reason, REASON_MAX, "%s",
			 strchr(path, '@') ? "it is a snapshot"
					   : "the cluster lets this user only read it");
	if (backing->path)
		return 0;
	rbd_close(backing);
	return error_set(error, -ENOMEM, "%s: %s", path, strerror(ENOMEM));
}

const struct backing_kind backing_rbd = {
	.facts = &image_kind_ceph,
	.open = rbd_open,
	.engine = "librbd",
	.start = rbd_store_start,
	.close = rbd_close,
	.size = rbd_size,
	.follow_size = rbd_size_follow,
	.unfollow_size = rbd_size_unfollow,
	.told_size = rbd_told_size,
	.same = rbd_same,
	.peek = rbd_peek,
	.extents = rbd_search_extents,
	.have_holes = rbd_have_holes,
	.lock = rbd_lock,
	.lock_check = rbd_lock_check,
	.unlock = rbd_unlock,
	.is_fenced = rbd_is_fenced,
	.stop_waiting = rbd_stop_waiting,
	.may_be_left = rbd_may_be_left,
	.snapshots = &snapshots,
	.checkpoints = &checkpoints,
	.put_status = rbd_put_status,
};
