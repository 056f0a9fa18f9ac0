/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/exports/exports.h"

#include "server/access/access.h"
#include "server/exports/exports_state.h"
#include "server/worker/worker_contexts.h"

#include "common/cleanup.h"
#include "engine/changes/checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the list */

struct offer **
exports_find(struct exports *exports, const char *name, size_t length)
{
	struct offer **at = &exports->listed;

	while (*at && (strlen((*at)->facts.name) != length ||
		       memcmp((*at)->facts.name, name, length) != 0))
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
	export_config_free(export->config);
	free(export);
}

static void *
close_image(void *data)
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

/* mutex held.  False: out of memory, or of threads. */
static bool
start_closing(struct exports *exports, struct export *export)
{
	struct closing *closing = calloc(1, sizeof(*closing));

	if (!closing)
		return false;
	closing->exports = exports;
	closing->export = export;
	closing->may_be_left = image_may_be_left(export->image);
	if (pthread_create(&closing->thread, NULL, close_image, closing) != 0) {
		free(closing);
		return false;
	}
	closing->next = exports->closing;
	exports->closing = closing;
	return true;
}

static void
tell_closed(struct exports *exports)
{
	if (exports->closed)
		exports->closed(exports->closed_data);
}

/* Frees the threads that have closed an image; `all`: waits for those that are about to. */
static void
join_closing(struct exports *exports, bool all)
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
		tell_closed(exports);
	}
}

/*
 * Closing an image waits for a write-back that the sweeper has started (engine/io/sweeper.h), and
 * on some file systems for one of all data, and this may be the main thread, which accepts the
 * clients of other exports.
 */
void
export_put(struct exports *exports, struct export *export)
{
	bool here;

	pthread_mutex_lock(&exports->mutex);
	here = --export->users == 0 && (exports->over || !start_closing(exports, export));
	pthread_mutex_unlock(&exports->mutex);
	if (here)
		export_free(exports, export);
}

static void
free_offers(struct offer *offer)
{
	while (offer) {
		struct offer *next = offer->next;

		export_put(offer->exports, offer->export);
		tell_closed(offer->exports);
		access_release(offer->access);
		free(offer);
		offer = next;
	}
}

void
exports_left(struct exports *exports, struct offer *offer, struct export_client *client)
{
	bool unused;

	pthread_mutex_lock(&exports->mutex);
	export_leave(offer->export, client);
	offer->export->connections--;
	unused = atomic_fetch_sub_explicit(&offer->connections, 1, memory_order_relaxed) == 1 &&
		 exports->retired;
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
forget_offer(struct worker *worker, struct worker_message *message)
{
	worker_forget(worker, message->data);
}

/* mutex held. */
static void
ask_workers(struct exports *exports, struct offer *offer)
{
	offer->asked = true;
	offer->pending = exports->worker_count;
	for (unsigned int i = 0; i < exports->worker_count; i++) {
		offer->messages[i] =
			(struct worker_message){.deliver = forget_offer, .data = offer};
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
			ask_workers(exports, offer);
		at = &offer->next;
	}
	pthread_mutex_unlock(&exports->mutex);
	free_offers(forgotten);
	join_closing(exports, false);
}

/* ---- visits */

/* mutex held. */
static unsigned int
count_listed(const struct exports *exports)
{
	unsigned int count = 0;

	for (const struct offer *offer = exports->listed; offer; offer = offer->next)
		count++;
	return count;
}

/* Locks mutex, and returns memory for all exports that are listed then; NULL: out of memory.  Event
 * loops take the mutex, so that nobody asks for memory while it is held. */
static struct visited *
lock_with_memory(struct exports *exports)
{
	struct visited *visited = NULL;
	unsigned int room = 0;

	pthread_mutex_lock(&exports->mutex);
	while (!visited || count_listed(exports) > room) {
		room = count_listed(exports);
		pthread_mutex_unlock(&exports->mutex);
		free(visited);
		visited = calloc(room + 1, sizeof(*visited));
		pthread_mutex_lock(&exports->mutex);
		if (!visited)
			break;
	}
	return visited;
}

/* The exports to visit, each with one more user and its rules held.  NULL: out of memory. */
static struct visited *
take_exports(struct exports *exports, const char *name, unsigned int *count)
{
	struct visited *visited = lock_with_memory(exports);

	*count = 0;
	for (const struct offer *offer = exports->listed; visited && offer; offer = offer->next) {
		struct export *export = offer->export;

		if (name && strcmp(name, offer->facts.name) != 0)
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
	struct visited *CLEANUP_FREE visited = take_exports(exports, name, &count);

	for (unsigned int i = 0; i < count; i++) {
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

void
exports_set_user(struct exports *exports, uid_t user)
{
	exports->user = user;
}

void
exports_reserve(struct exports *exports)
{
	exports->reserved = true;
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

/* The lists are empty from then on.  A thread that tells of a new size of an image that is still
 * open must neither find offers there that are about to be freed, nor put a new one there. */
static void
take_lists(struct exports *exports, struct offer **listed, struct offer **retired)
{
	pthread_mutex_lock(&exports->changing);
	pthread_mutex_lock(&exports->mutex);
	exports->over = true;
	*listed = steal_pointer(&exports->listed);
	*retired = steal_pointer(&exports->retired);
	pthread_mutex_unlock(&exports->mutex);
	pthread_mutex_unlock(&exports->changing);
}

void
exports_free(struct exports *exports)
{
	struct offer *listed, *retired;

	if (!exports)
		return;
	exports_stop_looking(exports);
	take_lists(exports, &listed, &retired);
	free(exports->defaults.allow);
	free(exports->defaults.allow_write);
	for (unsigned int scope = 0; scope < LIMIT_SCOPES; scope++) {
		for (unsigned int kind = 0; kind < LIMIT_KINDS; kind++)
			free(exports->defaults.limit_options[scope].rates[kind]);
	}
	free_offers(listed);
	free_offers(retired);
	join_closing(exports, true);
	pthread_cond_destroy(&exports->forgotten);
	pthread_mutex_destroy(&exports->mutex);
	pthread_mutex_destroy(&exports->changing);
	free(exports);
}
