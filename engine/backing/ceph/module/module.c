/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The module of engine/backing/ceph/rbd_module.h: opens images in Ceph, and answers questions about
 * them. calls.c has the requests, owner.c the exclusive lock, snapshot.c the snapshots.
 *
 * It decides nothing, and logs nothing: what the results mean is the engine's business.
 */
#include "engine/backing/ceph/module/image.h"

#include "common/cleanup.h"
#include "common/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *
conf_of(const struct rbd_place *place)
{
	const char *from_environment = getenv("CEPH_CONF");

	if (place->conf)
		return place->conf;
	return from_environment ? from_environment : "/etc/ceph/ceph.conf";
}

/* Tells librbd how long it may wait for an answer of the cluster, in seconds; 0: for ever. */
static int
set_patience(rados_t cluster, unsigned int seconds)
{
	static const char *const options[] = {"rados_osd_op_timeout", "rados_mon_op_timeout"};
	char text[16];
	int r = 0;

	snprintf(text, sizeof(text), "%u", seconds);
	for (size_t i = 0; r == 0 && i < 2; i++)
		r = rados_conf_set(cluster, options[i], text);
	return r;
}

/*
 * What must not be otherwise, whatever the configuration file says: no cache, also not on a local
 * disk (a plugin), because a flushed write must be on the OSDs, and an acknowledged one must not be
 * in this machine when another server takes over; and whoever loses the lock is fenced, because the
 * writes that it still sends would arrive on top of its successor's.
 */
static const char *const needs[][2] = {
	{"rbd_cache", "false"},
	{"rbd_plugins", ""},
	{"rbd_persistent_cache_mode", "disabled"},
	{"rbd_blocklist_on_break_lock", "true"},
};
#define NEEDS (sizeof(needs) / sizeof(needs[0]))

/* Sets that, and has no limit that would make a caller wait, because that is an event loop, and the
 * contexts limit what is in flight. */
static int
configure(rados_t cluster, const struct rbd_place *place)
{
	static const char *const settings[][2] = {
		{"rbd_non_blocking_aio", "true"},
		{"objecter_inflight_ops", "0"},
		{"objecter_inflight_op_bytes", "0"},
		{"client_mount_timeout", "10"}, /* RBD_OPEN_SECONDS */
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof(settings) / sizeof(settings[0]); i++)
		r = rados_conf_set(cluster, settings[i][0], settings[i][1]);
	for (size_t i = 0; r == 0 && i < NEEDS; i++)
		r = rados_conf_set(cluster, needs[i][0], needs[i][1]);
	if (r == 0 && place->keyring)
		r = rados_conf_set(cluster, "keyring", place->keyring);
	return r == 0 ? set_patience(cluster, RBD_OPEN_SECONDS) : r;
}

static int
create_client(struct rbd_image *image, const struct rbd_place *place, char **error)
{
	char user[128];
	int r;

	snprintf(user, sizeof(user), "client.%s", place->user ? place->user : "admin");
	r = rados_create2(&image->cluster, "ceph", user, 0);
	if (r < 0) {
		image->cluster = NULL;
		return error_set(error, r, "%s: Ceph's library can't start: %s", place->name,
				 strerror(-r));
	}
	r = rados_conf_read_file(image->cluster, conf_of(place));
	if (r < 0)
		return error_set(
			error, r,
			"%s: Ceph's configuration can't be read from %s: %s; ceph-conf=FILE names another file",
			place->name, conf_of(place), strerror(-r));
	r = configure(image->cluster, place);
	return r < 0 ? error_set(error, r, "%s: Ceph's library refuses a setting: %s", place->name,
				 strerror(-r))
		     : 0;
}

static int
connect_client(struct rbd_image *image, const struct rbd_place *place, char **error)
{
	int r = rados_connect(image->cluster);

	if (r >= 0)
		return 0;
	if (r == -ETIMEDOUT)
		return error_set(
			error, r,
			"%s: no monitor of the cluster has answered within %u seconds; \"mon host\" in %s says where they are",
			place->name, RBD_OPEN_SECONDS, conf_of(place));
	return error_set(
		error, r,
		"%s: the cluster of %s can't be reached as client.%s: %s; ceph-conf=, ceph-user= and ceph-keyring= name others",
		place->name, conf_of(place), place->user ? place->user : "admin", strerror(-r));
}

static int
open_pool(struct rbd_image *image, const struct rbd_place *place, char **error)
{
	int r = rados_ioctx_create(image->cluster, place->pool, &image->pool);

	if (r < 0) {
		image->pool = NULL;
		return error_set(error, r, "%s: pool %s: %s", place->name, place->pool,
				 strerror(-r));
	}
	rados_ioctx_set_namespace(image->pool, place->space ? place->space : "");
	return 0;
}

/* Opens the image, read-only if its user may not write. */
static int
open_image(struct rbd_image *image, const struct rbd_place *place, struct rbd_facts *facts,
	   char **error)
{
	bool read_only = place->read_only || place->snapshot;
	int r = read_only ? -EROFS
			  : rbd_open(image->pool, place->image, &image->image, place->snapshot);

	facts->writable = r == 0;
	if (r == -EROFS || r == -EPERM || r == -EACCES)
		r = rbd_open_read_only(image->pool, place->image, &image->image, place->snapshot);
	if (r == 0)
		return 0;
	image->image = NULL;
	if (r == -ETIMEDOUT)
		return error_set(
			error, r,
			"%s: the cluster's OSDs have not answered within %u seconds; `ceph status` shows their state",
			place->name, RBD_OPEN_SECONDS);
	return error_set(error, r, "%s: %s", place->name,
			 r == -ENOENT ? "there is no such image or snapshot" : strerror(-r));
}

/* The most settings that librbd knows. */
#define SETTINGS 512

/* Returns the index of the need that a setting goes against, or NEEDS. */
static size_t
broken_need(const rbd_config_option_t *setting)
{
	size_t i = 0;

	while (i < NEEDS && (strcmp(setting->name, needs[i][0]) != 0 ||
			     strcmp(setting->value, needs[i][1]) == 0))
		i++;
	return i;
}

/* The image and its pool can have settings of their own, which count more than this client's.
 * Refuses those that go against what must be. */
static int
refuse_settings(struct rbd_image *image, const struct rbd_place *place, char **error)
{
	rbd_config_option_t *CLEANUP_FREE settings = calloc(SETTINGS, sizeof(*settings));
	int count = SETTINGS, r;

	if (!settings)
		return error_set(error, -ENOMEM, "%s: %s", place->name, strerror(ENOMEM));
	r = rbd_config_image_list(image->image, settings, &count);
	if (r < 0)
		return error_set(error, r, "%s: its settings can't be read: %s", place->name,
				 strerror(-r));
	for (int i = 0; r == 0 && i < count; i++) {
		size_t need = broken_need(&settings[i]);
		const char *holder =
			settings[i].source == RBD_CONFIG_SOURCE_IMAGE ? "image" : "pool";

		if (need < NEEDS)
			r = error_set(
				error, -EOPNOTSUPP,
				"%s: not served with the %s's own setting %s=%s, because flushed writes could be lost, or "
				"older ones overwrite newer ones; `rbd config %s rm` removes it",
				place->name, holder, settings[i].name, settings[i].value, holder);
	}
	rbd_config_image_list_cleanup(settings, count);
	return r;
}

static int
learn_facts(struct rbd_image *image, const struct rbd_place *place, struct rbd_facts *facts,
	    char **error)
{
	char id[64];
	int r = rados_cluster_fsid(image->cluster, facts->cluster, sizeof(facts->cluster));

	if (r >= 0)
		r = rbd_get_id(image->image, id, sizeof(id));
	if (r >= 0)
		r = set_patience(image->cluster, 0);
	if (r < 0)
		return error_set(error, r, "%s: its properties can't be read: %s", place->name,
				 strerror(-r));
	snprintf(facts->identity, sizeof(facts->identity), "%s/%lld/%s/%s@%s", facts->cluster,
		 (long long)rados_ioctx_get_id(image->pool), place->space ? place->space : "", id,
		 place->snapshot ? place->snapshot : "");
	return 0;
}

static void
image_close(struct rbd_image *image)
{
	if (image->watched)
		rbd_update_unwatch(image->image, image->watch);
	if (image->image)
		rbd_close(image->image);
	if (image->pool)
		rados_ioctx_destroy(image->pool);
	if (image->cluster)
		rados_shutdown(image->cluster);
	pthread_mutex_destroy(&image->mutex);
	free(image);
}

static int
image_open(const struct rbd_place *place, rbd_returned returned, struct rbd_image **result,
	   struct rbd_facts *facts, char **error)
{
	struct rbd_image *image = calloc(1, sizeof(*image));
	int r;

	*facts = (struct rbd_facts){0};
	if (!image)
		return error_set(error, -ENOMEM, "%s: %s", place->name, strerror(ENOMEM));
	image->returned = returned;
	pthread_mutex_init(&image->mutex, NULL);
	r = create_client(image, place, error);
	if (r == 0)
		r = connect_client(image, place, error);
	if (r == 0)
		r = open_pool(image, place, error);
	if (r == 0)
		r = open_image(image, place, facts, error);
	if (r == 0)
		r = refuse_settings(image, place, error);
	if (r == 0)
		r = learn_facts(image, place, facts, error);
	if (r < 0)
		image_close(image);
	else
		*result = image;
	return r;
}

static int64_t
image_size(struct rbd_image *image)
{
	uint64_t size;
	int r = rbd_get_size(image->image, &size);

	return r < 0 ? r : (int64_t)size;
}

_Static_assert(RBD_HAS_EXCLUSIVE_LOCK == RBD_FEATURE_EXCLUSIVE_LOCK, "the engine's is Ceph's");
_Static_assert(RBD_HAS_FAST_DIFF == RBD_FEATURE_FAST_DIFF, "the engine's is Ceph's");

static int
image_features(struct rbd_image *image, uint64_t *features)
{
	int r = rbd_get_features(image->image, features);

	return r < 0 ? r : 0;
}

static int
image_watch(struct rbd_image *image, void (*updated)(void *data), void *data)
{
	int r = rbd_update_watch(image->image, &image->watch, updated, data);

	image->watched = r >= 0;
	return r;
}

__attribute__((visibility("default"))) extern const struct rbd_module nbdloop_rbd_module_8;
const struct rbd_module nbdloop_rbd_module_8 = {
	.open = image_open,
	.close = image_close,
	.start = rbd_image_start,
	.extents = rbd_image_extents,
	.size = image_size,
	.features = image_features,
	.watch = image_watch,
	.lock_owner = rbd_image_lock_owner,
	.answers = rbd_image_answers,
	.lock_acquire = rbd_image_lock_acquire,
	.lock_release = rbd_image_lock_release,
	.lock_break = rbd_image_lock_break,
	.snapshot_create = rbd_image_snapshot_create,
	.snapshot_remove = rbd_image_snapshot_remove,
	.snapshots = rbd_image_snapshots,
	.changes = rbd_image_changes,
};
