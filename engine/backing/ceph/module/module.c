/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The module of engine/backing/ceph/rbd_module.h, by librbd. It decides nothing, and logs nothing:
 * what the results mean is the engine's business.
 */
#include "engine/backing/ceph/rbd_module.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"

#include <errno.h>
#include <pthread.h>
#include <rados/librados.h>
#include <rbd/librbd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- opening */

static const char *
client_conf(const struct rbd_place *place)
{
	const char *from_environment = getenv("CEPH_CONF");

	if (place->conf)
		return place->conf;
	return from_environment ? from_environment : "/etc/ceph/ceph.conf";
}

/* Tells librbd how long it may wait for an answer of the cluster, in seconds; 0: for ever. */
static int
client_set_patience(rados_t cluster, unsigned int seconds)
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
client_configure(rados_t cluster, const struct rbd_place *place)
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
	return r == 0 ? client_set_patience(cluster, RBD_OPEN_SECONDS) : r;
}

static int
client_create(struct rbd_image *image, const struct rbd_place *place, char **error)
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
	r = rados_conf_read_file(image->cluster, client_conf(place));
	if (r < 0)
		return error_set(
			error, r,
			"%s: Ceph's configuration can't be read from %s: %s; ceph-conf=FILE names another file",
			place->name, client_conf(place), strerror(-r));
	r = client_configure(image->cluster, place);
	return r < 0 ? error_set(error, r, "%s: Ceph's library refuses a setting: %s", place->name,
				 strerror(-r))
		     : 0;
}

static int
client_connect(struct rbd_image *image, const struct rbd_place *place, char **error)
{
	int r = rados_connect(image->cluster);

	if (r >= 0)
		return 0;
	if (r == -ETIMEDOUT)
		return error_set(
			error, r,
			"%s: no monitor of the cluster has answered within %u seconds; \"mon host\" in %s says where they are",
			place->name, RBD_OPEN_SECONDS, client_conf(place));
	return error_set(
		error, r,
		"%s: the cluster of %s can't be reached as client.%s: %s; ceph-conf=, ceph-user= and ceph-keyring= name others",
		place->name, client_conf(place), place->user ? place->user : "admin", strerror(-r));
}

static int
client_open_pool(struct rbd_image *image, const struct rbd_place *place, char **error)
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
rbd_image_connect(struct rbd_image *image, const struct rbd_place *place, struct rbd_facts *facts,
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
client_broken_need(const rbd_config_option_t *setting)
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
image_refuse_settings(struct rbd_image *image, const struct rbd_place *place, char **error)
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
		size_t need = client_broken_need(&settings[i]);
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
image_learn_facts(struct rbd_image *image, const struct rbd_place *place, struct rbd_facts *facts,
		  char **error)
{
	char id[64];
	int r = rados_cluster_fsid(image->cluster, facts->cluster, sizeof(facts->cluster));

	if (r >= 0)
		r = rbd_get_id(image->image, id, sizeof(id));
	if (r >= 0)
		r = client_set_patience(image->cluster, 0);
	if (r < 0)
		return error_set(error, r, "%s: its properties can't be read: %s", place->name,
				 strerror(-r));
	snprintf(facts->identity, sizeof(facts->identity), "%s/%lld/%s/%s@%s", facts->cluster,
		 (long long)rados_ioctx_get_id(image->pool), place->space ? place->space : "", id,
		 place->snapshot ? place->snapshot : "");
	return 0;
}

static void
rbd_image_close(struct rbd_image *image)
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
rbd_image_open(const struct rbd_place *place, rbd_returned returned, struct rbd_image **result,
	       struct rbd_facts *facts, char **error)
{
	struct rbd_image *image = calloc(1, sizeof(*image));
	int r;

	*facts = (struct rbd_facts){0};
	if (!image)
		return error_set(error, -ENOMEM, "%s: %s", place->name, strerror(ENOMEM));
	image->returned = returned;
	pthread_mutex_init(&image->mutex, NULL);
	r = client_create(image, place, error);
	if (r == 0)
		r = client_connect(image, place, error);
	if (r == 0)
		r = client_open_pool(image, place, error);
	if (r == 0)
		r = rbd_image_connect(image, place, facts, error);
	if (r == 0)
		r = image_refuse_settings(image, place, error);
	if (r == 0)
		r = image_learn_facts(image, place, facts, error);
	if (r < 0)
		rbd_image_close(image);
	else
		*result = image;
	return r;
}

/* ---- questions */

static int64_t
rbd_image_size(struct rbd_image *image)
{
	uint64_t size;
	int r = rbd_get_size(image->image, &size);

	return r < 0 ? r : (int64_t)size;
}

_Static_assert(RBD_HAS_EXCLUSIVE_LOCK == RBD_FEATURE_EXCLUSIVE_LOCK, "the engine's is Ceph's");
_Static_assert(RBD_HAS_FAST_DIFF == RBD_FEATURE_FAST_DIFF, "the engine's is Ceph's");

static int
rbd_image_features(struct rbd_image *image, uint64_t *features)
{
	int r = rbd_get_features(image->image, features);

	return r < 0 ? r : 0;
}

static int
rbd_image_watch(struct rbd_image *image, void (*updated)(void *data), void *data)
{
	int r = rbd_update_watch(image->image, &image->watch, updated, data);

	image->watched = r >= 0;
	return r;
}

/* ---- the exclusive lock */

/* The most clients that watch one image at a time; with more, the owner counts as watching. */
#define WATCHERS 64

static int
image_is_watched_by(struct rbd_image *image, const char *address, bool *watches)
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

static int
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
		r = image_is_watched_by(image, owner->address, &owner->watches);
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
image_notify_all(struct rbd_image *image, struct notify_ack_t **answers, size_t *count)
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

static int
rbd_image_answers(struct rbd_image *image, const char *address)
{
	rbd_image_watcher_t watchers[WATCHERS];
	size_t count = WATCHERS, answered;
	struct notify_ack_t *answers = NULL;
	int r = rbd_watchers_list(image->image, watchers, &count), found = 0;

	/* With more, it is not looked for, and counts as alive. */
	if (r < 0)
		return r == -ERANGE ? 1 : r;
	r = image_notify_all(image, &answers, &answered);
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

static int
rbd_image_lock_acquire(struct rbd_image *image)
{
	return rbd_lock_acquire(image->image, RBD_LOCK_MODE_EXCLUSIVE);
}

static int
rbd_image_lock_release(struct rbd_image *image)
{
	return rbd_lock_release(image->image);
}

static int
rbd_image_lock_break(struct rbd_image *image, const char *address)
{
	return rbd_lock_break(image->image, RBD_LOCK_MODE_EXCLUSIVE, address);
}

/* ---- snapshots */

/* How long the monitors may take to give a snapshot its number, in seconds. librbd has all of the
 * image's writes wait for it, however long ago the request for the snapshot was given up. */
#define NUMBER_SECONDS 10

/* The limit counts for what is sent to the monitors meanwhile. Several snapshots may be under way,
 * of several exports of the image. Without memory for it, there is no limit. */
static void
image_hurry(struct rbd_image *image, bool on)
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
image_ignore_progress(uint64_t offset, uint64_t total, void *data)
{
	(void)offset;
	(void)total;
	(void)data;
	return 0;
}

/* librbd has no cache (see `needs`), so all that was acknowledged is on the OSDs. Nobody else is
 * asked to be quiet (rbd-nbd's hooks): a hook that hangs would hold up this server's changes. */
static int
image_create_snapshot(struct rbd_image *image, const char *name)
{
	const int64_t limit = clock_ms(CLOCK_MONOTONIC) + NUMBER_SECONDS * 1000;
	uint64_t id;
	int r = rbd_snap_create2(image->image, name, RBD_SNAP_CREATE_SKIP_QUIESCE,
				 image_ignore_progress, NULL);

	/* With this flag, librbd 16.2 calls failures successes (seen: EDQUOT). Without it, it tells
	 * what is wrong; but not if writes would wait as long again. */
	if (r < 0 || rbd_snap_get_id(image->image, name, &id) != -ENOENT)
		return r;
	if (clock_ms(CLOCK_MONOTONIC) >= limit)
		return -ETIMEDOUT;
	return rbd_snap_create2(image->image, name, RBD_SNAP_CREATE_IGNORE_QUIESCE_ERROR,
				image_ignore_progress, NULL);
}

static int
rbd_image_snapshot_create(struct rbd_image *image, const char *name)
{
	int r;

	image_hurry(image, true);
	r = image_create_snapshot(image, name);
	image_hurry(image, false);
	return r;
}

static int
rbd_image_snapshot_remove(struct rbd_image *image, const char *name)
{
	return rbd_snap_remove(image->image, name);
}

/* ---- those that there are */

/* Lists the snapshots of an image. Returns their number, and the caller frees *list with
 * rbd_snap_list_end() and free(); or -errno. */
static int
image_list_snapshots(rbd_image_t image, rbd_snap_info_t **list)
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

static int
rbd_image_snapshots(struct rbd_image *image, rbd_snapshot_visit visit, void *data)
{
	rbd_snap_info_t *list;
	int count = image_list_snapshots(image->image, &list);

	if (count < 0)
		return count;
	for (int i = 0; i < count; i++) {
		struct timespec made = {0};

		rbd_snap_get_timestamp(image->image, list[i].id, &made);
		visit(data, &(struct rbd_snapshot_facts){list[i].name, list[i].id, list[i].size,
							 (int64_t)made.tv_sec});
	}
	/* The list ends with an entry without a name, which an empty list does not have. */
	if (count > 0)
		rbd_snap_list_end(list);
	free(list);
	return 0;
}

/* By another handle, which reads the image's header now. */
static int
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

/* ---- requests */

static int
call_result(const struct backing_call *call, ssize_t r)
{
	/* The engine would try these again with system calls. */
	if (r == -EAGAIN || r == -EINTR)
		return -EIO;
	if (r < 0)
		return (int)r;
	switch (call->op) {
	case CALL_READ: return (int)r;
	case CALL_WRITE: return (int)call->length;
	default: return 0;
	}
}

/* On a thread of librbd's. */
static void
call_completed(rbd_completion_t completion, void *data)
{
	struct backing_call *call = data;
	const struct rbd_image *image = call->state;
	ssize_t r = rbd_aio_get_return_value(completion);

	rbd_aio_release(completion);
	image->returned(call, call_result(call, r));
}

static int
call_submit(rbd_image_t image, const struct backing_call *call, rbd_completion_t completion)
{
	uint64_t offset = call->offset, length = call->length;

	switch (call->op) {
	case CALL_READ:
		return rbd_aio_read(image, offset, (size_t)length, call->buffer, completion);
	case CALL_WRITE:
		return rbd_aio_write(image, offset, (size_t)length, call->buffer, completion);
	case CALL_FLUSH: return rbd_aio_flush(image, completion);
	case CALL_DISCARD: return rbd_aio_discard(image, offset, length, completion);
	case CALL_ZERO:
		return rbd_aio_write_zeroes(image, offset, (size_t)length, completion, 0, 0);
	case CALL_ZERO_THICK:
		return rbd_aio_write_zeroes(image, offset, (size_t)length, completion,
					    RBD_WRITE_ZEROES_FLAG_THICK_PROVISION, 0);
	case CALL_SEARCH: break;
	}
	return -EINVAL;
}

static void
rbd_image_start(struct rbd_image *image, struct backing_call *call)
{
	rbd_completion_t completion;
	int r = rbd_aio_create_completion(call, call_completed, &completion);

	call->state = image;
	if (r < 0) {
		image->returned(call, r);
		return;
	}
	r = call_submit(image->image, call, completion);
	if (r >= 0)
		return;
	rbd_aio_release(completion);
	image->returned(call, call_result(call, r));
}

struct search {
	extent_visit visit;
	void *data;
	uint64_t start, place, end; /* the extent that grows is from .start to .place */
	bool hole;                  /* and is one */
	bool one, over;             /* after the first extent the search is over */
	int result;                 /* the visitor's */
};

/* Hands the extent that grew over to the visitor. */
static void
search_visit_grown(struct search *search)
{
	uint64_t start = search->start;

	search->start = search->place;
	if (start == search->place || search->over)
		return;
	search->result = search->visit(search->data, start, search->place - start, search->hole);
	search->over = search->one || search->result;
}

/* All that there is up to `end` is of one kind. librbd tells of each object by itself. */
static void
search_grow(struct search *search, uint64_t end, bool hole)
{
	if (end > search->end)
		end = search->end;
	if (end <= search->place)
		return;
	if (hole != search->hole)
		search_visit_grown(search);
	search->hole = hole;
	search->place = end;
}

/* librbd tells only of what is there, in order; the rest is holes. */
static int
search_note(uint64_t offset, size_t length, int exists, void *data)
{
	struct search *search = data;

	search_grow(search, offset, true);
	search_grow(search, offset + length, !exists);
	return search->over ? -ECANCELED : 0;
}

/* The same, of what has changed; `exists` tells only what it is now. */
static int
search_note_changed(uint64_t offset, size_t length, int exists, void *data)
{
	(void)exists;
	return search_note(offset, length, true, data);
}

static int
rbd_image_extents(struct rbd_image *image, uint64_t offset, uint64_t length, bool one, bool whole,
		  extent_visit visit, void *data)
{
	struct search search = {
		.visit = visit,
		.data = data,
		.start = offset,
		.place = offset,
		.end = offset + length,
		.one = one,
	};
	int r = rbd_diff_iterate2(image->image, NULL, offset, length, 1, whole, search_note,
				  &search);

	if (r < 0 && !search.over)
		return r;
	search_grow(&search, search.end, true);
	search_visit_grown(&search);
	return search.result;
}

/*
 * librbd's quick way (whole objects, by the object map) tells too little after `rbd snap rollback`,
 * which brings the map of the older snapshot back. So the OSDs are asked for each object.
 *
 * A snapshot that another client removes is cut out of the objects before this client is told, and
 * then they tell too little. So the cluster is asked afterwards whether it is still there: it gets
 * another name before it is cut out.
 */
static int
rbd_image_changes(struct rbd_image *image, const char *since, uint64_t offset, uint64_t length,
		  extent_visit visit, void *data)
{
	struct search search = {
		.visit = visit,
		.data = data,
		.start = offset,
		.place = offset,
		.end = offset + length,
	};
	const uint64_t end = search.end;
	uint64_t size;
	int r = rbd_get_size(image->image, &size);

	if (r < 0)
		return r;
	/* librbd tells nothing of what is beyond the end: that was cut off. */
	if (offset < size) {
		search.end = size < end ? size : end;
		r = rbd_diff_iterate2(image->image, since, offset, search.end - offset, 1, 0,
				      search_note_changed, &search);
		if (r < 0 && !search.over)
			return r;
		/* It may have been cut just before that. */
		r = rbd_get_size(image->image, &size);
		if (r < 0)
			return r;
		search_grow(&search, size, true);
		search.end = end;
	}
	search_grow(&search, end, false);
	search_visit_grown(&search);
	r = rbd_image_snapshot_check(image, since);
	return r < 0 ? r : search.result;
}

__attribute__((visibility("default"))) extern const struct rbd_module nbdloop_rbd_module_8;
const struct rbd_module nbdloop_rbd_module_8 = {
	.open = rbd_image_open,
	.close = rbd_image_close,
	.start = rbd_image_start,
	.extents = rbd_image_extents,
	.size = rbd_image_size,
	.features = rbd_image_features,
	.watch = rbd_image_watch,
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
