/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looks at the images of exports: when a client wants to choose one, and when the configuration is
 * read again.  A file that has another size gets a new offer.
 *
 * A thread looks for the clients.  While the file system lets it wait, further clients do not: they
 * are told what was known before.
 */
#include "server/exports/exports.h"

#include "server/exports/exports_state.h"
#include "server/serve/look.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Milliseconds after which nobody waits for the present look any more. */
#define STUCK_MS 1000

struct looks {
	struct exports *exports;
	pthread_t thread;
	pthread_cond_t wanted;
	pthread_mutex_t mutex; /* guards the following; held only for moments */
	struct look *first, **last;
	int64_t since; /* of the present look, clock_ms(CLOCK_MONOTONIC); 0: there is none */
	bool over;
};

/* ---- one look */

static void
look_at(struct exports *exports, struct export *export)
{
	struct image_look look;

	image_look(export->image, false, &look);
	/* A change that runs now may make a new offer itself, or the next client gets one. */
	if (!look.resized || pthread_mutex_trylock(&exports->changing) != 0)
		return;
	export_adopt_size(exports, export, false);
	exports_end_change(exports);
}

void
export_look_again(struct exports *exports, struct offer *offer)
{
	struct export *export = offer->export;
	char *CLEANUP_FREE error = NULL;
	struct image_look look;

	if (export->origin)
		return;
	image_look(export->image, true, &look);
	/* A lock that is in the way must not cost the clients what they may read. */
	export->reopens = look.writable_again && image_lock_check(export->image, true, &error) == 0;
	if (look.writable_again && !export->reopens)
		log_warning("export \"%s\": its image stays read-only: %s", export->config->name,
			    error ? error : strerror(ENOMEM));
	if (look.resized)
		export_adopt_size(exports, export, false);
}

/* ---- the thread */

/* The next look, which is under way from then on; NULL: there will be none. */
static struct look *
next_look(struct looks *looks)
{
	struct look *look;

	pthread_mutex_lock(&looks->mutex);
	looks->since = 0;
	while (!looks->first && !looks->over)
		pthread_cond_wait(&looks->wanted, &looks->mutex);
	look = looks->first;
	if (look) {
		looks->since = clock_ms(CLOCK_MONOTONIC);
		looks->first = look->next;
		if (!looks->first)
			looks->last = &looks->first;
	}
	pthread_mutex_unlock(&looks->mutex);
	return look;
}

static void *
look_for_clients(void *data)
{
	struct looks *looks = data;
	struct look *look;

	while ((look = next_look(looks)) != NULL) {
		look_at(looks->exports, look->export);
		export_put(looks->exports, look->export);
		worker_post(look->worker, &look->message);
	}
	return NULL;
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
	r = thread_start(&looks->thread, look_for_clients, looks);
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

/* looks->mutex held. */
static bool
is_stuck(const struct looks *looks)
{
	return looks->since && clock_ms(CLOCK_MONOTONIC) - looks->since > STUCK_MS;
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
	stuck = is_stuck(looks);
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
		log_warning("the file system of an image does not answer: clients that connect are "
			    "told the sizes of before");
	return stuck ? -EBUSY : 0;
}
