/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/exports/export_look.h"

#include "server/exports/clones.h"
#include "server/exports/export_image.h"
#include "server/exports/exports.h"
#include "server/connection/look.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Milliseconds after which nobody waits for the present look any more. */
#define STUCK_MS 1000

struct looks {
	struct exports *exports;
	pthread_t thread;
	pthread_cond_t wanted;
	pthread_mutex_t mutex; /* guards the following; held only for moments */
	struct look *first, **last;
	int64_t since; /* of the present look, clock_ms(CLOCK_MONOTONIC); 0: there is none */
	bool all;      /* the images of all exports are to be looked at */
	bool over;
};

/* ---- one look */

/* A change that takes longer is about to make a new offer itself, or the next client gets one. */
static bool
look_begin_change(struct exports *exports)
{
	int64_t end = clock_ms(CLOCK_MONOTONIC) + STUCK_MS;

	while (pthread_mutex_trylock(&exports->changing) != 0) {
		if (clock_ms(CLOCK_MONOTONIC) >= end)
			return false;
		usleep(5000);
	}
	return true;
}

/* changing held. Returns whether the export has neither clients nor snapshots. */
static bool
look_is_unused(struct exports *exports, const struct export *export)
{
	bool unused;

	pthread_mutex_lock(&exports->mutex);
	unused = export->connections == 0;
	for (const struct offer *offer = exports->listed; offer; offer = offer->next)
		unused = unused && offer->export->origin != export;
	pthread_mutex_unlock(&exports->mutex);
	return unused;
}

/* changing held. Returns whether the image, which can be written to now, is to be opened again. A
 * lock that is in the way must not cost its clients what they may read. */
static bool
look_may_reopen(struct exports *exports, struct export *export)
{
	char *CLEANUP_FREE error = NULL;

	if (!look_is_unused(exports, export))
		log_info("export \"%s\": its image can be written to now, and is opened again at "
			 "a SIGHUP when it has neither clients nor snapshots",
			 export->config->name);
	else if (image_lock_check(export->image, true, &error) == 0)
		return true;
	else
		log_warning("export \"%s\": its image stays read-only: %s", export->config->name,
			    error ? error : strerror(ENOMEM));
	return false;
}

static void
exports_look_again(void *data, const struct visited *visited)
{
	struct exports *exports = data;
	struct export *export = visited->export;
	struct image_look look;

	if (export->origin)
		return;
	image_look(export->image, true, &look);
	if ((!look.resized && !look.writable_again) || !look_begin_change(exports))
		return;
	if (look.resized)
		export_adopt_size(exports, export, false);
	export->reopens = look.writable_again && look_may_reopen(exports, export);
	if (export->reopens)
		atomic_store(&exports->reload, true);
	exports_end_change(exports);
}

/* ---- the thread */

/* Waits for a look, which is under way from then on; *look NULL: at all images. False: there will
 * be none. */
static bool
look_next(struct looks *looks, struct look **look)
{
	bool some;

	pthread_mutex_lock(&looks->mutex);
	looks->since = 0;
	while (!looks->first && !looks->all && !looks->over)
		pthread_cond_wait(&looks->wanted, &looks->mutex);
	*look = looks->first;
	some = looks->first || (looks->all && !looks->over);
	if (*look)
		looks->first = (*look)->next;
	else
		looks->all = false;
	if (!looks->first)
		looks->last = &looks->first;
	looks->since = some ? clock_ms(CLOCK_MONOTONIC) : 0;
	pthread_mutex_unlock(&looks->mutex);
	return some;
}

static void
look_make_clone(struct exports *exports, const struct look *look)
{
	if (!look_begin_change(exports)) {
		log_warning("export \"%s\": no clone for %s: another change is under way",
			    look->export->config->name, look->owner);
		return;
	}
	clones_make(exports, look->export, look->owner);
	exports_end_change(exports);
}

static void *
looks_run(void *data)
{
	struct looks *looks = data;
	struct exports *exports = looks->exports;
	struct image_look seen;
	struct look *look;

	while (look_next(looks, &look)) {
		if (!look) {
			exports_visit(exports, NULL, exports_look_again, exports);
			continue;
		}
		if (look->owner) {
			look_make_clone(exports, look);
			seen.resized = false;
		} else {
			image_look(look->export->image, false, &seen);
		}
		if (seen.resized && look_begin_change(exports)) {
			export_adopt_size(exports, look->export, false);
			exports_end_change(exports);
		}
		export_put(exports, look->export);
		worker_post(look->worker, &look->message);
	}
	return NULL;
}

void
exports_look_at_all(struct exports *exports)
{
	struct looks *looks = exports->looks;

	if (!looks)
		return;
	pthread_mutex_lock(&looks->mutex);
	looks->all = true;
	pthread_cond_signal(&looks->wanted);
	pthread_mutex_unlock(&looks->mutex);
}

bool
exports_want_reload(struct exports *exports)
{
	return atomic_exchange(&exports->reload, false);
}

int
exports_start_looking(struct exports *exports)
{
	struct looks *looks = calloc(1, sizeof(*looks));
	int r;

	if (!looks)
		return -ENOMEM;
	looks->exports = exports;
	looks->last = &looks->first;
	pthread_mutex_init(&looks->mutex, NULL);
	pthread_cond_init(&looks->wanted, NULL);
	r = thread_start(&looks->thread, looks_run, looks);
	if (r == 0) {
		exports->looks = looks;
		return 0;
	}
	pthread_cond_destroy(&looks->wanted);
	pthread_mutex_destroy(&looks->mutex);
	free(looks);
	return r;
}

void
exports_stop_looking(struct exports *exports)
{
	struct looks *looks = exports->looks;

	if (!looks)
		return;
	pthread_mutex_lock(&looks->mutex);
	looks->over = true;
	pthread_cond_signal(&looks->wanted);
	pthread_mutex_unlock(&looks->mutex);
	pthread_join(looks->thread, NULL);
	pthread_cond_destroy(&looks->wanted);
	pthread_mutex_destroy(&looks->mutex);
	free(looks);
	exports->looks = NULL;
}

bool
exports_are_looking(struct exports *exports)
{
	struct looks *looks = exports->looks;
	bool looking;

	if (!looks)
		return false;
	pthread_mutex_lock(&looks->mutex);
	looking = looks->since || looks->first;
	pthread_mutex_unlock(&looks->mutex);
	return looking;
}

int
exports_look(struct exports *exports, struct look *look)
{
	static struct log_limit limit = LOG_LIMIT_INIT(1, 60);
	struct looks *looks = exports->looks;
	bool stuck;

	pthread_mutex_lock(&exports->mutex);
	look->export->users++;
	pthread_mutex_lock(&looks->mutex);
	stuck = looks->since && clock_ms(CLOCK_MONOTONIC) - looks->since > STUCK_MS;
	if (stuck) {
		look->export->users--; /* its offer uses it, too */
	} else {
		look->next = NULL;
		*looks->last = look;
		looks->last = &look->next;
		pthread_cond_signal(&looks->wanted);
	}
	pthread_mutex_unlock(&looks->mutex);
	pthread_mutex_unlock(&exports->mutex);
	if (stuck && log_limit_pass(&limit, NULL))
		log_warning(
			"the file system of an image does not answer: new clients are told the last known sizes");
	return stuck ? -EBUSY : 0;
}
