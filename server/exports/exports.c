/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/exports/exports.h"

#include "server/access/access.h"
#include "server/exports/export_clients.h"
#include "server/connection/worker_contexts.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/event.h"
#include "common/log.h"
#include "engine/changes/checkpoint.h"
#include "engine/image/image_status.h"
#include "nbd/protocol.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The largest request that the NBD specification lets any server expect ("Size constraints"). */
#define MAXIMUM_BLOCK   (32u << 20)
#define PREFERRED_BLOCK 4096

/* An image that a thread of its own closes, since that may wait for the disk. */
struct closing {
	struct exports *exports;
	struct export *export; /* the thread's */
	pthread_t thread;
	bool may_be_left; /* as image_may_be_left() said of the image */
	bool done;
	struct closing *next;
};

/* ---- the list */

struct offer **
exports_find(struct exports *exports, const char *name, size_t length)
{
	struct offer **at = &exports->listed;

	while (*at && (strlen((*at)->export->config->name) != length ||
		       memcmp((*at)->export->config->name, name, length) != 0))
		at = &(*at)->next;
	return *at ? at : NULL;
}

struct offer **
exports_only(struct exports *exports)
{
	struct offer **only = NULL;

	for (struct offer **at = &exports->listed; *at; at = &(*at)->next) {
		if ((*at)->export->origin)
			continue;
		if (only)
			return NULL;
		only = at;
	}
	return only;
}

struct offer **
exports_find_or_only(struct exports *exports, const char *name)
{
	return name ? exports_find(exports, name, strlen(name)) : exports_only(exports);
}

struct offer *
exports_begin_change(struct exports *exports, const char *name)
{
	struct offer **at;

	pthread_mutex_lock(&exports->changing);
	pthread_mutex_lock(&exports->mutex);
	at = exports_find_or_only(exports, name);
	pthread_mutex_unlock(&exports->mutex);
	return at ? *at : NULL;
}

void
exports_end_change(struct exports *exports)
{
	pthread_mutex_unlock(&exports->changing);
	exports->wake(exports->data);
}

/* ---- offers */

static void
offer_set_facts(struct nbd_export *facts, const struct export *export)
{
	struct image *image = export->image;

	*facts = (struct nbd_export){
		/* Clients know a clone by the name of its origin. */
		.name = (export->owner ? export->origin : export)->config->name,
		.description = export->config->description,
		.size = image_size(image),
		.min_block = image_min_block(image),
		.preferred_block = PREFERRED_BLOCK,
		.max_payload = MAXIMUM_BLOCK,
		.flags = NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_FUA | NBD_FLAG_SEND_WRITE_ZEROES |
			 NBD_FLAG_SEND_FAST_ZERO | NBD_FLAG_CAN_MULTI_CONN,
		.allocation = image_has_holes(image),
	};
	/* Another connection gets another clone. */
	if (export->owner && export->origin->config->clone == CLONE_CONNECTION)
		facts->flags &= (uint16_t)~NBD_FLAG_CAN_MULTI_CONN;
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
	offer_set_facts(&offer->facts, export);
	return offer;
}

static void
export_log_summary(const struct export *export)
{
	const char *name = export->config->name;
	bool degraded;
	char *CLEANUP_FREE summary = image_summary(export->image, &degraded);

	if (summary && name[0])
		log_info("export \"%s\": %s", name, summary);
	else if (summary)
		log_info("%s", summary);
}

void
export_refuse(struct exports *exports, struct export *export, int r, const char *error)
{
	/* The image of which a snapshot is not made is served as before. */
	if (!export->origin)
		event_raise(&(struct event){.kind = EVENT_REFUSED,
					    .subject = export->config->file,
					    .error = -r,
					    .text = error});
	export_free(exports, export);
}

int
exports_offer(struct exports *exports, struct export *export, struct access *access, char **error)
{
	struct offer **end = &exports->listed, *offer = NULL;
	struct nbd_export facts;
	const char *problem;
	int r = -ENOMEM;

	offer_set_facts(&facts, export);
	problem = nbd_export_problem(&facts);
	if (problem)
		r = error_set(error, -EINVAL, "export \"%s\": %s", facts.name, problem);
	else
		offer = offer_new(exports, export, access);
	if (!offer) {
		export_refuse(exports, export, r, *error);
		return r;
	}
	pthread_mutex_lock(&exports->mutex);
	export->users++;
	while (*end)
		end = &(*end)->next;
	*end = offer;
	pthread_mutex_unlock(&exports->mutex);
	export_log_summary(export);
	if (access)
		access_log(access, export->config->name);
	return 0;
}

void
exports_retire(struct exports *exports, const struct export *export)
{
	for (struct offer **at = &exports->listed; *at;) {
		struct offer *offer = *at;
		struct export *one = offer->export;

		if (one != export && one->origin != export) {
			at = &offer->next;
			continue;
		}
		if (export_is_snapshot(one))
			atomic_store(&one->ended, true);
		*at = offer->next;
		offer->next = exports->retired;
		exports->retired = offer;
	}
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

int
exports_refresh(struct exports *exports, struct offer *offer)
{
	struct nbd_export now;

	offer_set_facts(&now, offer->export);
	if (now.size == offer->facts.size && now.flags == offer->facts.flags)
		return 0;
	return exports_renew(exports, offer, offer->access);
}

/* ---- the end of an offer, and of an export */

void
export_free(struct exports *exports, struct export *export)
{
	/* The thread that tells of a new size uses the checkpoints. */
	if (export->image)
		image_unfollow_size(export->image);
	checkpoints_free(export->checkpoints);
	image_close(export->image);
	if (export->origin)
		export_put(exports, export->origin);
	export_end_limits(export);
	free(export->traffic);
	free(export->owner);
	export_config_free(export->config);
	free(export);
}

static void *
export_close(void *data)
{
	struct closing *closing = data;
	struct exports *exports = closing->exports;

	export_free(exports, closing->export);
	pthread_mutex_lock(&exports->mutex);
	closing->done = true;
	pthread_mutex_unlock(&exports->mutex);
	exports->wake(exports->data);
	return NULL;
}

/* mutex held. False: out of memory, or of threads. */
static bool
closing_start(struct exports *exports, struct export *export)
{
	struct closing *closing = calloc(1, sizeof(*closing));

	if (!closing)
		return false;
	closing->exports = exports;
	closing->export = export;
	closing->may_be_left = image_may_be_left(export->image);
	if (pthread_create(&closing->thread, NULL, export_close, closing) != 0) {
		free(closing);
		return false;
	}
	closing->next = exports->closing;
	exports->closing = closing;
	return true;
}

static void
closing_tell(struct exports *exports)
{
	if (exports->closed)
		exports->closed(exports->closed_data);
}

/* Frees the threads that have closed an image; `all`: waits for those that are about to. */
static void
closing_join(struct exports *exports, bool all)
{
	struct closing *ended = NULL, **at;

	pthread_mutex_lock(&exports->mutex);
	for (at = &exports->closing; *at;) {
		struct closing *closing = *at;

		if (!all && !closing->done) {
			at = &closing->next;
			continue;
		}
		*at = closing->next;
		closing->next = ended;
		ended = closing;
	}
	pthread_mutex_unlock(&exports->mutex);
	while (ended) {
		struct closing *closing = ended;

		ended = closing->next;
		pthread_join(closing->thread, NULL);
		free(closing);
		closing_tell(exports);
	}
}

/*
 * Closing an image waits for a write-back that the sweeper has started (engine/io/sweeper.h). On
 * some file systems, it waits for a write-back of all data. This may be the main thread, which
 * accepts the clients of other exports.
 */
void
export_put(struct exports *exports, struct export *export)
{
	bool here;

	pthread_mutex_lock(&exports->mutex);
	here = --export->users == 0 && (exports->over || !closing_start(exports, export));
	pthread_mutex_unlock(&exports->mutex);
	if (here)
		export_free(exports, export);
}

static void
offers_free(struct offer *offer)
{
	while (offer) {
		struct offer *next = offer->next;

		export_put(offer->exports, offer->export);
		closing_tell(offer->exports);
		access_release(offer->access);
		free(offer);
		offer = next;
	}
}

/* mutex held. The clone of a connection is thrown away with it: exports_expire(). */
static void
export_end_clone(struct export *export)
{
	if (export->owner && export->connections == 0 &&
	    export->origin->config->clone == CLONE_CONNECTION)
		export->expires = clock_seconds(CLOCK_BOOTTIME);
}

void
exports_left(struct exports *exports, struct offer *offer, struct export_client *client)
{
	bool unused;

	pthread_mutex_lock(&exports->mutex);
	export_leave(offer->export, client);
	offer->export->connections--;
	export_end_clone(offer->export);
	unused = atomic_fetch_sub_explicit(&offer->connections, 1, memory_order_relaxed) == 1 &&
		 (exports->retired || offer->export->owner);
	pthread_mutex_unlock(&exports->mutex);
	if (unused)
		exports->wake(exports->data);
}

void
exports_forgotten(struct exports *exports, struct offer *offer)
{
	bool last;

	pthread_mutex_lock(&exports->mutex);
	last = --offer->pending == 0;
	if (last)
		pthread_cond_broadcast(&exports->forgotten);
	pthread_mutex_unlock(&exports->mutex);
	if (last)
		exports->wake(exports->data);
}

/* On the worker's thread. */
static void
offer_forget(struct worker *worker, struct worker_message *message)
{
	worker_forget(worker, message->data);
}

/* mutex held. */
static void
offer_ask_workers(struct exports *exports, struct offer *offer)
{
	offer->asked = true;
	offer->pending = exports->worker_count;
	for (unsigned int i = 0; i < exports->worker_count; i++) {
		offer->messages[i] =
			(struct worker_message){.deliver = offer_forget, .data = offer};
		worker_post(&exports->workers[i], &offer->messages[i]);
	}
}

void
exports_reap(struct exports *exports)
{
	struct offer *forgotten = NULL, **at;

	pthread_mutex_lock(&exports->mutex);
	for (at = &exports->retired; *at;) {
		struct offer *offer = *at;

		if (offer->asked && offer->pending == 0) {
			*at = offer->next;
			offer->next = forgotten;
			forgotten = offer;
			continue;
		}
		if (!offer->asked &&
		    atomic_load_explicit(&offer->connections, memory_order_relaxed) == 0)
			offer_ask_workers(exports, offer);
		at = &offer->next;
	}
	pthread_mutex_unlock(&exports->mutex);
	offers_free(forgotten);
	closing_join(exports, false);
}

/* ---- visits */

/* mutex held. */
static unsigned int
exports_count(const struct exports *exports)
{
	unsigned int count = 0;

	for (const struct offer *offer = exports->listed; offer; offer = offer->next)
		count++;
	return count;
}

/* Locks mutex, and returns memory for all exports that are listed then; NULL: out of memory. Event
 * loops take the mutex, so that nobody asks for memory while it is held. */
static struct visited *
exports_lock_with_memory(struct exports *exports)
{
	struct visited *visited = NULL;
	unsigned int room = 0;

	pthread_mutex_lock(&exports->mutex);
	while (!visited || exports_count(exports) > room) {
		room = exports_count(exports);
		pthread_mutex_unlock(&exports->mutex);
		free(visited);
		visited = calloc(room + 1, sizeof(*visited));
		pthread_mutex_lock(&exports->mutex);
		if (!visited)
			break;
	}
	return visited;
}

/* The exports to visit, each with one more user and its rules held. NULL: out of memory. */
static struct visited *
exports_take(struct exports *exports, const char *name, unsigned int *count)
{
	struct visited *visited = exports_lock_with_memory(exports);

	*count = 0;
	for (const struct offer *offer = exports->listed; visited && offer; offer = offer->next) {
		struct export *export = offer->export;

		if (name && strcmp(name, export->config->name) != 0)
			continue;
		export->users++;
		visited[(*count)++] = (struct visited){.export = export,
						       .access = access_hold(offer->access),
						       .connections = export->connections};
		memcpy(visited[*count - 1].limits, export_limits(export), sizeof(visited->limits));
	}
	pthread_mutex_unlock(&exports->mutex);
	return visited;
}

unsigned int
exports_visit(struct exports *exports, const char *name,
	      void (*visit)(void *data, const struct visited *visited), void *data)
{
	/* The visits hold no mutex: writing a status may take a while, and handshakes would wait;
	 * nor do they wait for `changing`, since a change may take minutes. */
	unsigned int count;
	struct visited *CLEANUP_FREE visited = exports_take(exports, name, &count);

	for (unsigned int i = 0; i < count; i++) {
		if (visit)
			visit(data, &visited[i]);
		access_release(visited[i].access);
		export_put(exports, visited[i].export);
	}
	return count;
}

struct offer *
exports_at(struct exports *exports, size_t n)
{
	struct offer *offer;

	pthread_mutex_lock(&exports->mutex);
	for (offer = exports->listed; offer && n > 0; offer = offer->next)
		n--;
	pthread_mutex_unlock(&exports->mutex);
	return offer;
}

bool
exports_use_ring(struct exports *exports)
{
	const struct offer *offer;
	struct image_status status;

	for (size_t n = 0; (offer = exports_at(exports, n)) != NULL; n++) {
		image_status(offer->export->image, &status);
		if (strncmp(status.engine, "io_uring", strlen("io_uring")) == 0)
			return true;
	}
	return false;
}

static unsigned int
offers_snapshot_connections(const struct offer *offer)
{
	unsigned int count = 0;

	for (; offer; offer = offer->next) {
		if (export_is_snapshot(offer->export))
			count += atomic_load_explicit(&offer->connections, memory_order_relaxed);
	}
	return count;
}

unsigned int
exports_snapshot_connections(struct exports *exports)
{
	unsigned int count;

	pthread_mutex_lock(&exports->mutex);
	count = offers_snapshot_connections(exports->listed) +
		offers_snapshot_connections(exports->retired);
	pthread_mutex_unlock(&exports->mutex);
	return count;
}

/* ---- beginning and end */

struct exports *
exports_new(struct worker *workers, unsigned int worker_count, void (*wake)(void *data), void *data)
{
	struct exports *exports = calloc(1, sizeof(*exports));

	if (!exports)
		return NULL;
	exports->workers = workers;
	exports->worker_count = worker_count;
	exports->wake = wake;
	exports->data = data;
	exports->user = geteuid();
	pthread_mutex_init(&exports->changing, NULL);
	pthread_mutex_init(&exports->mutex, NULL);
	pthread_cond_init(&exports->forgotten, NULL);
	return exports;
}

int
exports_note_defaults(struct exports *exports, const struct export_config *defaults)
{
	int r;

	pthread_mutex_lock(&exports->mutex);
	r = config_copy_followed(&exports->defaults, defaults);
	pthread_mutex_unlock(&exports->mutex);
	return r;
}

int
exports_copy_defaults(struct exports *exports, struct export_config *defaults)
{
	int r;

	pthread_mutex_lock(&exports->mutex);
	r = config_copy_followed(defaults, &exports->defaults);
	pthread_mutex_unlock(&exports->mutex);
	return r;
}

void
exports_tell_closed(struct exports *exports, void (*closed)(void *data), void *data)
{
	exports->closed = closed;
	exports->closed_data = data;
}

void
exports_stop_waiting(struct exports *exports)
{
	pthread_mutex_lock(&exports->mutex);
	for (struct offer *offer = exports->listed; offer; offer = offer->next)
		image_stop_waiting(offer->export->image);
	for (struct offer *offer = exports->retired; offer; offer = offer->next)
		image_stop_waiting(offer->export->image);
	pthread_mutex_unlock(&exports->mutex);
}

bool
exports_may_be_left(struct exports *exports)
{
	bool may;

	pthread_mutex_lock(&exports->mutex);
	may = exports->listed || exports->retired || exports->closing;
	for (struct offer *offer = exports->listed; offer; offer = offer->next)
		may = may && image_may_be_left(offer->export->image);
	for (struct offer *offer = exports->retired; offer; offer = offer->next)
		may = may && image_may_be_left(offer->export->image);
	/* What is being closed is another thread's, so it was asked before. */
	for (struct closing *closing = exports->closing; closing; closing = closing->next)
		may = may && (closing->done || closing->may_be_left);
	pthread_mutex_unlock(&exports->mutex);
	return may;
}

/* mutex held. */
static bool
offers_have_snapshot(const struct offer *offer)
{
	while (offer && !export_is_snapshot(offer->export))
		offer = offer->next;
	return offer != NULL;
}

bool
exports_have_snapshots(struct exports *exports)
{
	bool have;

	pthread_mutex_lock(&exports->mutex);
	have = offers_have_snapshot(exports->listed) || offers_have_snapshot(exports->retired) ||
	       exports->closing;
	pthread_mutex_unlock(&exports->mutex);
	return have;
}

void
exports_free(struct exports *exports)
{
	struct offer *listed, *retired;

	if (!exports)
		return;
	/* From now on the lists are empty. A thread that reports a new size of an image that is
	 * still open must neither find offers there that are about to be freed, nor add one. */
	pthread_mutex_lock(&exports->changing);
	pthread_mutex_lock(&exports->mutex);
	exports->over = true;
	listed = steal_pointer(&exports->listed);
	retired = steal_pointer(&exports->retired);
	pthread_mutex_unlock(&exports->mutex);
	pthread_mutex_unlock(&exports->changing);
	free(exports->defaults.allow);
	free(exports->defaults.allow_write);
	for (unsigned int scope = 0; scope < LIMIT_SCOPES; scope++) {
		for (unsigned int kind = 0; kind < LIMIT_KINDS; kind++)
			free(exports->defaults.limit_options[scope].rates[kind]);
	}
	offers_free(listed);
	offers_free(retired);
	closing_join(exports, true);
	pthread_cond_destroy(&exports->forgotten);
	pthread_mutex_destroy(&exports->mutex);
	pthread_mutex_destroy(&exports->changing);
	free(exports);
}
