/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes of the list of exports: exports are opened, removed, and offered anew.
 */
#include "server/exports/exports.h"

#include "server/access/access.h"
#include "server/exports/exports_state.h"
#include "server/sandbox/sandbox.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/event.h"
#include "common/log.h"
#include "engine/backing/image_kinds.h"
#include "engine/changes/checkpoint.h"
#include "nbd/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The largest request that the NBD specification lets any server expect ("Size constraints"). */
#define MAXIMUM_BLOCK   (32u << 20)
#define PREFERRED_BLOCK 4096

/* Seconds for the workers to forget a retired offer; they do it in their next turn. */
#define FORGET_LIMIT 5

/* ---- one export */

static void
set_facts(struct nbd_export *facts, const struct export *export)
{
	struct image *image = export->image;

	*facts = (struct nbd_export){
		.name = export->config->name,
		.description = export->config->description,
		.size = image_size(image),
		.min_block = image_min_block(image),
		.preferred_block = PREFERRED_BLOCK,
		.max_payload = MAXIMUM_BLOCK,
		.flags = NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_FUA | NBD_FLAG_SEND_WRITE_ZEROES |
			 NBD_FLAG_SEND_FAST_ZERO | NBD_FLAG_CAN_MULTI_CONN,
		.allocation = image_has_holes(image),
	};
	if (!image_writable(image))
		facts->flags |= NBD_FLAG_READ_ONLY;
	if (image_discards(image))
		facts->flags |= NBD_FLAG_SEND_TRIM;
	if (image_rotational(image))
		facts->flags |= NBD_FLAG_ROTATIONAL;
	if (image_fills_cache(image))
		facts->flags |= NBD_FLAG_SEND_CACHE;
}

/* The rules are held once more. */
static struct offer *
offer_new(struct exports *exports, struct export *export, struct access *access)
{
	struct offer *offer =
		calloc(1, sizeof(*offer) + exports->worker_count * sizeof(offer->messages[0]));

	if (!offer)
		return NULL;
	offer->exports = exports;
	offer->export = export;
	offer->access = access_hold(access);
	set_facts(&offer->facts, export);
	return offer;
}

/* mutex held. */
static void
append(struct exports *exports, struct offer *offer)
{
	struct offer **end = &exports->listed;

	offer->export->users++;
	while (*end)
		end = &(*end)->next;
	*end = offer;
}

struct offer **
exports_find_or_only(struct exports *exports, const char *name)
{
	return name ? exports_find(exports, name, strlen(name)) : exports_only(exports);
}

/* mutex held.  Clients can have the offer no longer. */
static void
retire(struct exports *exports, struct offer **at)
{
	struct offer *offer = *at;

	*at = offer->next;
	offer->next = exports->retired;
	exports->retired = offer;
}

void
exports_end_change(struct exports *exports)
{
	pthread_mutex_unlock(&exports->changing);
	exports->wake(exports->data);
}

/* ---- adding and removing */

static enum lock_choice
lock_of(const struct export *export)
{
	return lock_resolve(export->config->image.lock, image_writable(export->image));
}

static bool
locks_agree(const struct export *a, const struct export *b)
{
	if (lock_of(a) == LOCK_OFF || lock_of(b) == LOCK_OFF)
		return true;
	return lock_of(a) == LOCK_SHARED && lock_of(b) == LOCK_SHARED &&
	       image_writable(a->image) == image_writable(b->image);
}

/* The first offer in a list whose lock excludes the export from the same part of a file, or NULL.
 * One whose image was fenced excludes nobody: it can't change the image any more. */
static const struct offer *
find_rival(const struct offer *list, const struct export *export)
{
	while (list && (!image_meets(list->export->image, export->image) ||
			locks_agree(export, list->export) || image_is_fenced(list->export->image)))
		list = list->next;
	return list;
}

/* mutex held.  Waits for the workers to forget a retired offer, then frees it.  False: it took too
 * long. */
static bool
await_forgotten(struct exports *exports, const struct offer *rival, const struct timespec *until)
{
	if (rival->asked && rival->pending > 0)
		return pthread_cond_timedwait(&exports->forgotten, &exports->mutex, until) !=
		       ETIMEDOUT;
	pthread_mutex_unlock(&exports->mutex);
	exports_reap(exports);
	pthread_mutex_lock(&exports->mutex);
	return true;
}

/* changing held.  Waits until removed exports of the same image are about to close it; for the
 * rest, image_lock() waits.  -EBUSY: clients still use them. */
static int
await_closed(struct exports *exports, const struct export *export, char **error)
{
	const struct offer *rival;
	unsigned int connections = 0;
	struct timespec until;
	bool in_time = true;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += FORGET_LIMIT;
	pthread_mutex_lock(&exports->mutex);
	while (in_time && (rival = find_rival(exports->retired, export)) != NULL) {
		connections = rival->export->connections;
		if (connections > 0)
			break;
		in_time = await_forgotten(exports, rival, &until);
	}
	if (connections > 0)
		r = error_set(
			error, -EBUSY,
			"export \"%s\": %s is still in use: %u client%s of the removed export \"%s\" %s still connected",
			export->config->name, export->config->file, connections,
			connections == 1 ? "" : "s", rival->facts.name,
			connections == 1 ? "is" : "are");
	pthread_mutex_unlock(&exports->mutex);
	return r;
}

/* changing held.  A conflict with a lock of our own is found first: image_lock() would wait for it,
 * and then could not say which export has it. */
static int
lock_image(struct exports *exports, struct export *export, char **error)
{
	const struct offer *same = find_rival(exports->listed, export);
	int r;

	if (same)
		return error_set(
			error, -EBUSY,
			"export \"%s\": %s is the same image as that of the export \"%s\", and they overlap; with lock=shared "
			"for both, and both writable or both read-only, one image can have several exports",
			export->config->name, export->config->file, same->facts.name);
	r = await_closed(exports, export, error);
	return r < 0 ? r : image_lock(export->image, image_writable(export->image), error);
}

static int
check_writable(const struct export *export, char **error)
{
	struct image_status status;

	if (export->config->read_only != TRISTATE_OFF || image_writable(export->image))
		return 0;
	image_status(export->image, &status);
	return error_set(error, -EACCES, "%s: read-only=off is not possible: %s",
			 export->config->file, status.read_only_reason);
}

/* changing held. */
static int
open_image(struct exports *exports, struct export *export, char **error)
{
	const struct export_config *config = export->config;
	unsigned int flags = config->read_only == TRISTATE_ON ? BACKING_READ_ONLY : 0;
	int r = image_open(AT_FDCWD, config->file, flags, &config->image, &export->image, error);

	if (r == 0)
		r = check_writable(export, error);
	if (r == 0)
		r = export_begin_limits(export);
	if (r < 0)
		return r;
	if (exports->reserved && !image_survives_fork(export->image))
		return error_set(error, -EOPNOTSUPP,
				 "%s: --swap is not possible: %s needs new memory for each request",
				 config->file, image_kind_of(config->file)->library);
	export->threads = exports->worker_count;
	export->traffic = traffic_new(export->threads);
	export->checkpoints = checkpoints_new(export->image);
	r = export->traffic && export->checkpoints ? lock_image(exports, export, error) : -ENOMEM;
	return r < 0 ? r : exports_keep_checkpoints(exports, export, error);
}

static void
say_what_runs(const struct export *export)
{
	const char *name = export->config->name;
	bool degraded;
	char *CLEANUP_FREE summary = image_summary(export->image, &degraded);

	if (summary && name[0])
		log_info("export \"%s\": %s", name, summary);
	else if (summary)
		log_info("%s", summary);
}

static int
check_facts(const struct export *export, char **error)
{
	struct nbd_export facts;
	const char *problem;

	set_facts(&facts, export);
	problem = nbd_export_problem(&facts);
	return problem ? error_set(error, -EINVAL, "export \"%s\": %s", facts.name, problem) : 0;
}

/* Tells why, and frees the export. */
static void
refuse(struct exports *exports, struct export *export, int r, const char *error)
{
	event_raise(&(struct event){.kind = EVENT_REFUSED,
				    .subject = export->config->file,
				    .error = -r,
				    .text = error});
	export_free(exports, export);
}

int
exports_offer(struct exports *exports, struct export *export, struct access *access, char **error)
{
	struct offer *offer;
	int r = check_facts(export, error);

	offer = r < 0 ? NULL : offer_new(exports, export, access);
	if (!offer) {
		r = r < 0 ? r : -ENOMEM;
		refuse(exports, export, r, *error);
		return r;
	}
	pthread_mutex_lock(&exports->mutex);
	append(exports, offer);
	pthread_mutex_unlock(&exports->mutex);
	say_what_runs(export);
	if (access)
		access_log(access, export->config->name);
	return 0;
}

int
exports_open(struct exports *exports, struct export_config *config, char **error)
{
	struct export *export = calloc(1, sizeof(*export));
	int r;

	if (!export) {
		export_config_free(config);
		return -ENOMEM;
	}
	export->exports = exports;
	export->config = config;
	r = sandbox_admits(config->file, error);
	if (r == 0)
		r = open_image(exports, export, error);
	if (r < 0) {
		refuse(exports, export, r, *error);
		return r;
	}
	r = exports_offer(exports, export, config->access, error);
	if (r == 0)
		exports_follow_size(export);
	return r;
}

int
exports_add(struct exports *exports, struct export_config *config, char **error)
{
	bool taken;
	int r;

	*error = NULL;
	config->next = NULL;
	pthread_mutex_lock(&exports->changing);
	pthread_mutex_lock(&exports->mutex);
	taken = exports_find_or_only(exports, config->name) != NULL;
	pthread_mutex_unlock(&exports->mutex);
	if (taken) {
		r = error_set(error, -EINVAL, "export \"%s\": there is one of that name already",
			      config->name);
		export_config_free(config);
	} else {
		r = exports_open(exports, config, error);
	}
	exports_end_change(exports);
	return r;
}

void
exports_retire(struct exports *exports, const struct export *export)
{
	for (struct offer **at = &exports->listed; *at;) {
		struct export *one = (*at)->export;

		if (one != export && one->origin != export) {
			at = &(*at)->next;
			continue;
		}
		if (one->origin)
			atomic_store(&one->ended, true);
		retire(exports, at);
	}
}

int
exports_remove(struct exports *exports, const char *name)
{
	struct offer **at;

	pthread_mutex_lock(&exports->changing);
	pthread_mutex_lock(&exports->mutex);
	at = exports_find_or_only(exports, name);
	if (at)
		exports_retire(exports, (*at)->export);
	pthread_mutex_unlock(&exports->mutex);
	exports_end_snapshots(exports);
	exports_end_change(exports);
	return at ? 0 : -ENOENT;
}

/* ---- changing */

static bool
is_up_to_date(const struct offer *offer)
{
	struct nbd_export now;

	set_facts(&now, offer->export);
	return now.size == offer->facts.size && now.flags == offer->facts.flags;
}

int
exports_refresh(struct exports *exports, struct offer *offer)
{
	return is_up_to_date(offer) ? 0 : exports_renew(exports, offer, offer->access);
}

int
exports_renew(struct exports *exports, struct offer *old, struct access *access)
{
	struct offer *offer = offer_new(exports, old->export, access);
	struct offer **at;

	if (!offer)
		return -ENOMEM;
	pthread_mutex_lock(&exports->mutex);
	offer->export->users++;
	for (at = &exports->listed; *at != old; at = &(*at)->next)
		;
	offer->next = old->next;
	*at = offer;
	old->next = exports->retired;
	exports->retired = old;
	pthread_mutex_unlock(&exports->mutex);
	return 0;
}
