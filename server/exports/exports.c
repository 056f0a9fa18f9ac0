/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/exports/exports.h"

#include "server/exports/exports_state.h"
#include "server/serve/worker_contexts.h"

#include "common/cleanup.h"
#include "common/container_of.h"
#include "nbd/protocol.h"

#include <stdlib.h>
#include <string.h>

static struct export *
export_of(const struct nbd_export *facts)
{
	return container_of(facts, struct export, served.facts);
}

/* ---- for the handshake */

static const struct nbd_export *
find_for_client(void *data, const char *name, size_t length)
{
	struct exports *exports = data;
	struct export *export;

	pthread_mutex_lock(&exports->mutex);
	for (export = exports->listed; export; export = export->next) {
		if (strlen(export->served.facts.name) == length &&
		    memcmp(export->served.facts.name, name, length) == 0)
			break;
	}
	/* The default export is the only one there is, whatever its name. */
	if (!export && length == 0 && exports->listed && !exports->listed->next)
		export = exports->listed;
	pthread_mutex_unlock(&exports->mutex);
	return export ? &export->served.facts : NULL;
}

static const struct nbd_export *
list_for_client(void *data, size_t n)
{
	struct exports *exports = data;
	struct export *export;

	pthread_mutex_lock(&exports->mutex);
	for (export = exports->listed; export && n > 0; export = export->next)
		n--;
	pthread_mutex_unlock(&exports->mutex);
	return export ? &export->served.facts : NULL;
}

static uint32_t
join_for_client(void *data, const struct nbd_export *facts, const char **message)
{
	struct exports *exports = data;
	struct export *wanted = export_of(facts), *export;

	pthread_mutex_lock(&exports->mutex);
	for (export = exports->listed; export && export != wanted; export = export->next)
		;
	if (export)
		atomic_fetch_add_explicit(&export->served.connections, 1, memory_order_relaxed);
	pthread_mutex_unlock(&exports->mutex);
	if (export)
		return 0;
	*message = "the export was removed or changed just now; try again";
	return NBD_REP_ERR_UNKNOWN;
}

const struct nbd_export_source exports_listed = {
	.find = find_for_client,
	.list = list_for_client,
	.join = join_for_client,
};

const struct nbd_export_source exports_unlisted = {
	.find = find_for_client,
	.join = join_for_client,
};

/* ---- the end of an export */

void
exports_left(struct exports *exports, struct served *served)
{
	bool unused;

	pthread_mutex_lock(&exports->mutex);
	unused = atomic_fetch_sub_explicit(&served->connections, 1, memory_order_relaxed) == 1 &&
		 exports->retired;
	pthread_mutex_unlock(&exports->mutex);
	if (unused)
		exports->wake(exports->data);
}

void
exports_forgotten(struct exports *exports, struct served *served)
{
	struct export *export = container_of(served, struct export, served);
	bool last;

	pthread_mutex_lock(&exports->mutex);
	last = --export->pending == 0;
	if (last)
		pthread_cond_broadcast(&exports->forgotten);
	pthread_mutex_unlock(&exports->mutex);
	if (last)
		exports->wake(exports->data);
}

/* On the worker's thread. */
static void
forget(struct worker *worker, struct worker_message *message)
{
	worker_forget(worker, message->data);
}

static bool
is_unused(const struct export *export)
{
	return atomic_load_explicit(&export->served.connections, memory_order_relaxed) == 0;
}

/* mutex held. */
static void
ask_workers(struct exports *exports, struct export *export)
{
	export->asked = true;
	export->pending = exports->worker_count;
	for (unsigned int i = 0; i < exports->worker_count; i++) {
		export->messages[i] =
			(struct worker_message){.deliver = forget, .data = &export->served};
		worker_post(&exports->workers[i], &export->messages[i]);
	}
}

void
exports_reap(struct exports *exports)
{
	struct export *over = NULL, **at;

	pthread_mutex_lock(&exports->mutex);
	for (at = &exports->retired; *at;) {
		struct export *export = *at;

		if (export->asked && export->pending == 0) {
			*at = export->next;
			export->next = over;
			over = export;
			continue;
		}
		if (!export->asked && is_unused(export))
			ask_workers(exports, export);
		at = &export->next;
	}
	pthread_mutex_unlock(&exports->mutex);
	while (over) {
		struct export *export = over;

		over = export->next;
		export_free(export);
	}
}

/* ---- looking at them */

/* mutex held. */
static void
view_export(struct exports *exports, const struct export *export, struct export_view *view)
{
	struct source *source = export->source;

	source->users++;
	*view = (struct export_view){
		.name = export->served.facts.name,
		.description = export->served.facts.description,
		.source = source,
		.image = source->image,
		.traffic = source->traffic,
		.threads = exports->worker_count,
		.connections = source_connections(exports, source),
	};
}

/* What is to be visited, each with its source kept.  NULL: nothing, or out of memory. */
static struct export_view *
take_views(struct exports *exports, const char *name, unsigned int *count)
{
	struct export_view *views;

	*count = 0;
	pthread_mutex_lock(&exports->mutex);
	for (const struct export *export = exports->listed; export; export = export->next)
		++*count;
	views = calloc(*count, sizeof(*views));
	*count = 0;
	for (const struct export *export = exports->listed; views && export;
	     export = export->next) {
		if (!name || strcmp(name, export->served.facts.name) == 0)
			view_export(exports, export, &views[(*count)++]);
	}
	pthread_mutex_unlock(&exports->mutex);
	return views;
}

unsigned int
exports_visit(struct exports *exports, const char *name,
	      void (*visit)(void *data, const struct export_view *view), void *data)
{
	/* Not with the mutex held: writing a status may take a while, and handshakes would wait;
	 * nor does it wait for a change. */
	struct export_view *CLEANUP_FREE views = NULL;
	unsigned int count;

	views = take_views(exports, name, &count);
	for (unsigned int i = 0; i < count; i++) {
		visit(data, &views[i]);
		source_put(exports, views[i].source);
	}
	return count;
}

unsigned int
exports_count(struct exports *exports)
{
	unsigned int count = 0;

	pthread_mutex_lock(&exports->mutex);
	for (const struct export *export = exports->listed; export; export = export->next)
		count++;
	pthread_mutex_unlock(&exports->mutex);
	return count;
}

struct served *
exports_at(struct exports *exports, size_t n)
{
	const struct nbd_export *facts = list_for_client(exports, n);

	return facts ? &export_of(facts)->served : NULL;
}

static void
look_at_engine(void *data, const struct export_view *view)
{
	struct image_status status;
	bool *ring = data;

	image_status(view->image, &status);
	*ring = *ring || strncmp(status.engine, "io_uring", strlen("io_uring")) == 0;
}

bool
exports_use_ring(struct exports *exports)
{
	bool ring = false;

	exports_visit(exports, NULL, look_at_engine, &ring);
	return ring;
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
	pthread_mutex_init(&exports->changing, NULL);
	pthread_mutex_init(&exports->mutex, NULL);
	pthread_cond_init(&exports->forgotten, NULL);
	return exports;
}

static void
free_all(struct export *export)
{
	while (export) {
		struct export *next = export->next;

		export_free(export);
		export = next;
	}
}

void
exports_free(struct exports *exports)
{
	if (!exports)
		return;
	free_all(exports->listed);
	free_all(exports->retired);
	pthread_cond_destroy(&exports->forgotten);
	pthread_mutex_destroy(&exports->mutex);
	pthread_mutex_destroy(&exports->changing);
	free(exports);
}
