/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes of the list of exports: opening, removing, what can be changed in one.
 */
#include "server/exports/export_changes.h"

#include "server/exports/exports.h"
#include "server/exports/exports_state.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/log.h"
#include "nbd/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The largest request that the NBD specification lets any server expect ("Size constraints"). */
#define MAXIMUM_BLOCK   (32u << 20)
#define PREFERRED_BLOCK 4096

/* Seconds for the workers to forget an export that has retired; they do it in their next turn. */
#define FORGET_LIMIT 5

/* ---- one export */

static void
set_facts(struct nbd_export *facts, const struct source *source)
{
	struct image *image = source->image;

	*facts = (struct nbd_export){
		.name = source->config->name,
		.description = source->config->description,
		.size = image_size(image),
		.min_block = image_sector_size(image),
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
	/* There is no cache to fill with direct I/O. */
	if (!image_direct(image))
		facts->flags |= NBD_FLAG_SEND_CACHE;
}

static struct export *
export_new(struct exports *exports, struct source *source)
{
	struct export *export =
		calloc(1, sizeof(*export) + exports->worker_count * sizeof(export->messages[0]));

	if (!export)
		return NULL;
	export->exports = exports;
	export->source = source;
	export->served.image = source->image;
	export->served.traffic = source->traffic;
	set_facts(&export->served.facts, source);
	return export;
}

/* mutex held. */
static void
append(struct exports *exports, struct export *export)
{
	struct export **end = &exports->listed;

	export->source->users++;
	while (*end)
		end = &(*end)->next;
	*end = export;
}

/* mutex held.  NULL: there is none of that name; no name: there is not just one. */
static struct export **
find(struct exports *exports, const char *name)
{
	struct export **at = &exports->listed;

	if (!name)
		return *at && !(*at)->next ? at : NULL;
	for (; *at; at = &(*at)->next) {
		if (strcmp((*at)->served.facts.name, name) == 0)
			return at;
	}
	return NULL;
}

/* mutex held.  Takes it from the list. */
static void
retire(struct exports *exports, struct export **at)
{
	struct export *export = *at;

	*at = export->next;
	export->next = exports->retired;
	exports->retired = export;
}

/* changing held, until now. */
static void
change_over(struct exports *exports)
{
	pthread_mutex_unlock(&exports->changing);
	exports->wake(exports->data);
}

/* ---- adding and removing */

static enum lock_choice
lock_of(const struct source *source)
{
	if (source->config->image.lock != LOCK_AUTO)
		return source->config->image.lock;
	return image_writable(source->image) ? LOCK_EXCLUSIVE : LOCK_SHARED;
}

static bool
locks_agree(const struct source *a, const struct source *b)
{
	if (lock_of(a) == LOCK_OFF || lock_of(b) == LOCK_OFF)
		return true;
	return lock_of(a) == LOCK_SHARED && lock_of(b) == LOCK_SHARED &&
	       image_writable(a->image) == image_writable(b->image);
}

/* The one in a list whose lock keeps the source from the same part of a file, or NULL. */
static const struct export *
find_rival(const struct export *list, const struct source *source)
{
	while (list && (!image_meets(list->source->image, source->image) ||
			locks_agree(source, list->source)))
		list = list->next;
	return list;
}

/* mutex held.  Has one that has retired forgotten, and its image closed.  False: it took too long.
 */
static bool
outlast(struct exports *exports, const struct export *rival, const struct timespec *until)
{
	if (rival->asked && rival->pending > 0)
		return pthread_cond_timedwait(&exports->forgotten, &exports->mutex, until) !=
		       ETIMEDOUT;
	pthread_mutex_unlock(&exports->mutex);
	exports_reap(exports);
	pthread_mutex_lock(&exports->mutex);
	return true;
}

/* changing held.  Waits until the image is closed that removed exports had, unless clients still
 * use it. */
static int
outlast_retired(struct exports *exports, const struct source *source, char **error)
{
	const struct export *rival;
	unsigned int connections = 0;
	struct timespec until;
	bool in_time = true;
	int r = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += FORGET_LIMIT;
	pthread_mutex_lock(&exports->mutex);
	while (in_time && (rival = find_rival(exports->retired, source)) != NULL) {
		connections = source_connections(exports, rival->source);
		if (connections > 0)
			break;
		in_time = outlast(exports, rival, &until);
	}
	if (connections > 0)
		r = error_set(
			error, -EBUSY,
			"export \"%s\": %s is still in use: %u client%s of the removed export \"%s\" %s still connected",
			source->config->name, source->config->file, connections,
			connections == 1 ? "" : "s", rival->served.facts.name,
			connections == 1 ? "is" : "are");
	pthread_mutex_unlock(&exports->mutex);
	return r;
}

/* changing held.  A lock of ours that is in the way is found before: it would be waited for, and
 * then nobody would know who has it. */
static int
lock_source(struct exports *exports, struct source *source, char **error)
{
	const struct export *same = find_rival(exports->listed, source);
	int r;

	if (same)
		return error_set(
			error, -EBUSY,
			"export \"%s\": %s is the same image as that of the export \"%s\", and they overlap; with lock=shared "
			"for both, and both writable or both read-only, one image can have several exports",
			source->config->name, source->config->file, same->served.facts.name);
	r = outlast_retired(exports, source, error);
	return r < 0 ? r : image_lock(source->image, image_writable(source->image), error);
}

/* changing held. */
static int
open_source(struct exports *exports, struct source *source, char **error)
{
	const struct export_config *config = source->config;
	unsigned int flags = config->read_only == TRISTATE_ON ? BACKING_READ_ONLY : 0;
	int r = image_open(AT_FDCWD, config->file, flags, &config->image, &source->image, error);

	if (r < 0)
		return r;
	source->traffic = traffic_new(exports->worker_count);
	return source->traffic ? lock_source(exports, source, error) : -ENOMEM;
}

static void
say_what_runs(const struct export *export)
{
	const char *name = export->served.facts.name;
	bool degraded;
	char *CLEANUP_FREE summary = image_summary(export->source->image, &degraded);

	if (summary && name[0])
		log_info("export \"%s\": %s", name, summary);
	else if (summary)
		log_info("%s", summary);
}

/* changing held. */
static int
add(struct exports *exports, struct export_config *config, char **error)
{
	struct source *source = calloc(1, sizeof(*source));
	struct export *export;
	const char *problem;
	int r;

	if (!source) {
		config_free(config);
		return -ENOMEM;
	}
	source->config = config;
	r = open_source(exports, source, error);
	export = r < 0 ? NULL : export_new(exports, source);
	if (!export) {
		source_free(source);
		return r < 0 ? r : -ENOMEM;
	}
	problem = nbd_export_problem(&export->served.facts);
	if (problem) {
		r = error_set(error, -EINVAL, "export \"%s\": %s", config->name, problem);
		source_free(source);
		free(export);
		return r;
	}
	pthread_mutex_lock(&exports->mutex);
	append(exports, export);
	pthread_mutex_unlock(&exports->mutex);
	say_what_runs(export);
	return 0;
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
	taken = find(exports, config->name) != NULL;
	pthread_mutex_unlock(&exports->mutex);
	if (taken) {
		r = error_set(error, -EINVAL, "export \"%s\": there is one of that name already",
			      config->name);
		config_free(config);
	} else {
		r = add(exports, config, error);
	}
	change_over(exports);
	return r;
}

int
exports_remove(struct exports *exports, const char *name)
{
	struct export **at;

	pthread_mutex_lock(&exports->changing);
	pthread_mutex_lock(&exports->mutex);
	at = find(exports, name);
	if (at)
		retire(exports, at);
	pthread_mutex_unlock(&exports->mutex);
	change_over(exports);
	return at ? 0 : -ENOENT;
}

/* ---- reading the configuration again */

static struct export_config *
configured(const struct server_config *config, const char *name)
{
	struct export_config *export = config->exports;

	while (export && strcmp(export->name, name) != 0)
		export = export->next;
	return export;
}

static void
remove_vanished(struct exports *exports, const struct server_config *config)
{
	pthread_mutex_lock(&exports->mutex);
	for (struct export **at = &exports->listed; *at;) {
		const char *name = (*at)->served.facts.name;

		if (configured(config, name)) {
			at = &(*at)->next;
			continue;
		}
		log_info("export \"%s\": removed; its clients stay (%u connections)", name,
			 atomic_load_explicit(&(*at)->served.connections, memory_order_relaxed));
		retire(exports, at);
	}
	pthread_mutex_unlock(&exports->mutex);
}

static void
compare(const struct export *export, struct export_config *config)
{
	const char *difference = export_difference(export->source->config, config);

	if (difference)
		log_warning("export \"%s\": %s has changed, which needs a restart of the server",
			    config->name, difference);
	config_free(config);
}

int
exports_reload(struct exports *exports, struct server_config *config)
{
	/* It may be held for minutes, and this is the main thread. */
	if (pthread_mutex_trylock(&exports->changing) != 0)
		return -EBUSY;
	remove_vanished(exports, config);
	while (config->exports) {
		struct export_config *wanted = config->exports;
		char *CLEANUP_FREE error = NULL;
		struct export **at;

		config->exports = wanted->next;
		wanted->next = NULL;
		pthread_mutex_lock(&exports->mutex);
		at = find(exports, wanted->name);
		pthread_mutex_unlock(&exports->mutex);
		/* Only who holds `changing` frees one that is listed. */
		if (at)
			compare(*at, wanted);
		else if (add(exports, wanted, &error) < 0)
			log_error("%s", error ? error : "out of memory");
	}
	change_over(exports);
	return 0;
}

/* ---- changing */

/* changing held.  What clients are told from now on is as the image is now. */
static int
renew(struct exports *exports, struct export *old)
{
	struct export *export = export_new(exports, old->source);
	struct export **at;

	if (!export)
		return -ENOMEM;
	pthread_mutex_lock(&exports->mutex);
	export->source->users++;
	for (at = &exports->listed; *at != old; at = &(*at)->next)
		;
	export->next = old->next;
	*at = export;
	old->next = exports->retired;
	exports->retired = old;
	pthread_mutex_unlock(&exports->mutex);
	return 0;
}

static bool
told_the_same(const struct export *export)
{
	struct nbd_export now;

	set_facts(&now, export->source);
	return now.size == export->served.facts.size && now.flags == export->served.facts.flags;
}

/* changing held. */
static int
change(struct exports *exports, struct export *export, const bool *direct, char **error)
{
	struct image *image = export->source->image;
	int r = direct ? image_set_direct(image, *direct, error) : image_resize(image, error);

	if (r < 0 || told_the_same(export))
		return r;
	return renew(exports, export);
}

static int
find_and_change(struct exports *exports, const char *name, const bool *direct, char **error)
{
	struct export **at;
	int r;

	*error = NULL;
	pthread_mutex_lock(&exports->changing);
	pthread_mutex_lock(&exports->mutex);
	at = find(exports, name);
	pthread_mutex_unlock(&exports->mutex);
	r = at ? change(exports, *at, direct, error) : -ENOENT;
	change_over(exports);
	return r;
}

int
exports_set_direct(struct exports *exports, const char *name, bool on, char **error)
{
	return find_and_change(exports, name, &on, error);
}

int
exports_resize(struct exports *exports, const char *name, char **error)
{
	return find_and_change(exports, name, NULL, error);
}
