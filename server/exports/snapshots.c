/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/exports/snapshots.h"

#include "server/access/access.h"
#include "server/config/server_uri.h"
#include "server/exports/disconnection.h"
#include "server/exports/exports.h"
#include "server/sandbox/sandbox.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"
#include "engine/changes/checkpoint.h"
#include "engine/snapshot/snapshot.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- making one */

/* The configuration of an export that stands for a snapshot; NULL: out of memory. */
static struct export_config *
snapshot_configure(const struct export *origin, const char *name)
{
	struct export_config *config = calloc(1, sizeof(*config));
	bool complete = config && config_copy_defaults(config, origin->config) == 0;

	if (complete) {
		config->name = strdup(name);
		config->file = strdup(origin->config->file);
		free(config->description);
		if (asprintf(&config->description, "snapshot of \"%s\"", origin->config->name) < 0)
			config->description = NULL;
		config->read_only = TRISTATE_ON;
		complete = config->name && config->file && config->description;
	}
	if (complete)
		return config;
	export_config_free(config);
	return NULL;
}

static struct export *
snapshot_export_new(struct exports *exports, struct export *origin, const char *name,
		    unsigned int expire)
{
	struct export *export = calloc(1, sizeof(*export));

	if (!export)
		return NULL;
	export->threads = exports->worker_count;
	export->traffic = traffic_new(export->threads);
	export->config = snapshot_configure(origin, name);
	if (expire)
		export->expires = clock_seconds(CLOCK_BOOTTIME) + (time_t)expire;
	if (!export->traffic || !export->config) {
		export_free(exports, export);
		return NULL;
	}
	pthread_mutex_lock(&exports->mutex);
	origin->users++;
	pthread_mutex_unlock(&exports->mutex);
	export->origin = origin;
	return export;
}

/* What is made at one moment. */
struct making {
	size_t count;
	struct offer **origins;        /* listed offers, which stay while `changing` is held */
	struct checkpoints **sets;     /* of the origins */
	struct export **exports;       /* the snapshots; NULL: not made, or handed over */
	struct snapshot_order *orders; /* of the engine */
	struct checkpoint *prepared;   /* that is to begin; NULL: none */
	bool begun;                    /* it has */
};

/* changing held. Lists the origins. 0, -ENOENT or -ENOMEM. */
static int
making_init(struct making *making, struct exports *exports, const struct snapshot_request *request)
{
	size_t most = 0;
	struct offer **at;

	pthread_mutex_lock(&exports->mutex);
	for (const struct offer *offer = exports->listed; offer; offer = offer->next)
		most++;
	making->origins = calloc(most + 1, sizeof(struct offer *));
	making->sets = calloc(most + 1, sizeof(struct checkpoints *));
	making->exports = calloc(most + 1, sizeof(struct export *));
	making->orders = calloc(most + 1, sizeof(struct snapshot_order));
	at = request->all ? &exports->listed : exports_find_or_only(exports, request->origin);
	for (; making->origins && at && *at; at = request->all ? &(*at)->next : NULL)
		if (!request->all || !(*at)->export->origin)
			making->origins[making->count++] = *at;
	pthread_mutex_unlock(&exports->mutex);
	if (!making->origins || !making->sets || !making->exports || !making->orders)
		return -ENOMEM;
	return making->count > 0 ? 0 : -ENOENT;
}

static void
making_fini(struct making *making, struct exports *exports)
{
	for (size_t i = 0; making->exports && i < making->count; i++)
		if (making->exports[i])
			export_free(exports, making->exports[i]);
	free(making->origins);
	free(making->sets);
	free(making->exports);
	free(making->orders);
}

/* Caller frees. */
static char *
snapshot_name(const struct snapshot_request *request, const char *origin)
{
	char *name;

	if (!request->all)
		return strdup(request->name);
	return asprintf(&name, "%s@%s", origin, request->name) < 0 ? NULL : name;
}

bool
snapshot_is_of_request(const struct export *export, const struct snapshot_request *request)
{
	char *CLEANUP_FREE name =
		export->origin ? snapshot_name(request, export->origin->config->name) : NULL;

	return name && strcmp(name, export->config->name) == 0;
}

/* changing held. Makes the n-th export, without an image. */
static int
making_add(struct making *making, size_t n, struct exports *exports,
	   const struct snapshot_request *request, char **error)
{
	const struct offer *of = making->origins[n];
	char *CLEANUP_FREE name = snapshot_name(request, of->facts.name);
	struct offer **taken;

	if (!name)
		return -ENOMEM;
	if (of->export->origin)
		return error_set(error, -EINVAL, "export \"%s\" is a snapshot itself",
				 of->facts.name);
	pthread_mutex_lock(&exports->mutex);
	taken = exports_find(exports, name, strlen(name));
	pthread_mutex_unlock(&exports->mutex);
	if (taken)
		return error_set(error, -EEXIST, "export \"%s\": there is one of that name already",
				 name);
	making->sets[n] = of->export->checkpoints;
	making->exports[n] = snapshot_export_new(exports, of->export, name, request->expire);
	if (!making->exports[n])
		return -ENOMEM;
	making->orders[n] = (struct snapshot_order){.image = of->export->image,
						    .name = making->exports[n]->config->name};
	return 0;
}

/* changing held. All that needs no moment. */
static int
making_prepare(struct making *making, struct exports *exports,
	       const struct snapshot_request *request, char **error)
{
	int r = making_init(making, exports, request);

	for (size_t i = 0; r == 0 && i < making->count; i++)
		r = making_add(making, i, exports, request, error);
	if (r == 0 && request->checkpoint)
		r = checkpoints_prepare(making->sets, making->count, request->checkpoint,
					CHECKPOINT_GRANULE, &making->prepared, error);
	for (size_t i = 0; r == 0 && i < making->count; i++) {
		making->exports[i]->checkpoints =
			checkpoints_prepare_copy(making->sets[i], making->prepared);
		if (!making->exports[i]->checkpoints)
			r = -ENOMEM;
	}
	return r;
}

static int
making_make_checkpoints(void *data, int64_t end, char **error)
{
	const struct making *making = data;

	return checkpoints_make_prepared(making->prepared, end, error);
}

static void
making_begin_checkpoints(void *data)
{
	struct making *making = data;

	if (making->prepared)
		checkpoints_begin_prepared(steal_pointer(&making->prepared));
	making->begun = true;
	for (size_t i = 0; i < making->count; i++)
		checkpoints_copy(making->exports[i]->checkpoints);
}

/* changing held. Offers no longer what was offered of it. */
static void
snapshot_withdraw(struct exports *exports, const struct snapshot_request *request)
{
	pthread_mutex_lock(&exports->mutex);
	for (const struct offer *offer = exports->listed, *next; offer; offer = next) {
		next = offer->next;
		if (snapshot_is_of_request(offer->export, request))
			exports_retire(exports, offer->export);
	}
	pthread_mutex_unlock(&exports->mutex);
	exports_end_snapshots(exports);
}

/* changing held. */
static int
making_offer(struct making *making, struct exports *exports, const struct snapshot_request *request,
	     char **error)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < making->count; i++)
		r = exports_offer(exports, steal_pointer(&making->exports[i]),
				  making->origins[i]->access, error);
	if (r < 0)
		snapshot_withdraw(exports, request);
	return r;
}

/* changing held. */
static int
making_run(struct making *making, struct exports *exports, const struct snapshot_request *request,
	   char **error)
{
	const struct snapshot_wish wish = {.scratch = request->scratch,
					   .scratch_size = request->scratch_size,
					   .make_first = making_make_checkpoints,
					   .at_moment = making_begin_checkpoints,
					   .data = making};
	int r = request->scratch ? sandbox_admits(request->scratch, error) : 0;

	if (r == 0)
		r = making_prepare(making, exports, request, error);
	if (r == 0)
		r = snapshots_take(making->orders, making->count, &wish, error);
	/* Whatever fails from here on, the exports close them. */
	for (size_t i = 0; r == 0 && i < making->count; i++) {
		making->exports[i]->image = making->orders[i].snapshot;
		checkpoints_of_snapshot(making->exports[i]->checkpoints, making->exports[i]->image);
	}
	if (r == 0 && request->checkpoint) {
		r = checkpoints_save_begun(making->sets, making->count, request->checkpoint, error);
		making->begun = r == 0;
	}
	if (r == 0)
		r = making_offer(making, exports, request, error);
	if (making->prepared)
		checkpoints_discard(making->prepared);
	if (r < 0 && making->begun && request->checkpoint)
		checkpoints_undo(making->sets, making->count, request->checkpoint);
	return r;
}

int
exports_snapshot(struct exports *exports, const struct snapshot_request *request, char **error)
{
	struct making making = {.count = 0};
	int r;

	*error = NULL;
	if (exports->reserved)
		return error_set(error, -EOPNOTSUPP,
				 "no snapshots with --swap: they need new memory for requests");
	pthread_mutex_lock(&exports->changing);
	r = making_run(&making, exports, request, error);
	making_fini(&making, exports);
	exports_end_change(exports);
	return r;
}

/* ---- the end of one */

/* changing and mutex held. Returns whether a snapshot's time was over. */
static bool
snapshot_retire_expired(struct exports *exports, time_t now)
{
	for (struct offer *offer = exports->listed; offer; offer = offer->next) {
		const struct export *export = offer->export;

		if (!export->expires || export->expires > now)
			continue;
		if (export_is_snapshot(export))
			log_info("snapshot \"%s\": removed at the end of its time",
				 offer->facts.name);
		exports_retire(exports, export);
		return true;
	}
	return false;
}

/* mutex held. CLOCK_BOOTTIME, seconds; 0: none. */
static time_t
snapshot_next_end(const struct exports *exports)
{
	time_t next = 0;

	for (const struct offer *offer = exports->listed; offer; offer = offer->next) {
		time_t end = offer->export->expires;

		if (end && (!next || end < next))
			next = end;
	}
	return next;
}

int
exports_expire(struct exports *exports)
{
	time_t now = clock_seconds(CLOCK_BOOTTIME), next;
	bool ended = false;

	pthread_mutex_lock(&exports->mutex);
	next = snapshot_next_end(exports);
	pthread_mutex_unlock(&exports->mutex);
	if (next && next <= now) {
		if (pthread_mutex_trylock(&exports->changing) != 0)
			return -1;
		pthread_mutex_lock(&exports->mutex);
		while (snapshot_retire_expired(exports, now))
			ended = true;
		next = snapshot_next_end(exports);
		pthread_mutex_unlock(&exports->mutex);
		if (ended)
			exports_end_snapshots(exports);
		exports_end_change(exports);
	}
	if (!next)
		return -1;
	return next - now < INT_MAX / 1000 ? (int)(next - now) * 1000 : INT_MAX;
}

/* ---- the status */

static void
snapshot_put_uri(struct json *json, const char *name, const char *socket)
{
	char *CLEANUP_FREE uri = NULL;
	size_t size;
	FILE *out = open_memstream(&uri, &size);

	if (!out)
		return;
	fputs("nbd+unix:///", out);
	server_uri_put_encoded(out, name);
	fputs("?socket=", out);
	server_uri_put_encoded(out, socket);
	if (fclose(out) == 0)
		json_put_string(json, "uri", uri);
}

void
snapshot_put_status(struct json *json, const struct export *export, const char *socket)
{
	struct snapshot_facts facts;
	time_t left;

	if (!export_is_snapshot(export))
		return;
	snapshot_facts(export->image, &facts);
	left = export->expires ? export->expires - clock_seconds(CLOCK_BOOTTIME) : 0;
	json_object_begin(json, "snapshot");
	json_put_string(json, "of", export->origin->config->name);
	json_put_string(json, "method", facts.method);
	json_put_uint(json, "expires_in", left > 0 ? (uint64_t)left : 0);
	json_put_uint(json, "granularity", facts.granule);
	json_put_uint(json, "scratch_bytes", facts.written);
	json_put_uint(json, "scratch_size", facts.most);
	json_put_string(json, "broken", facts.broken);
	json_object_end(json);
	if (socket)
		snapshot_put_uri(json, export->config->name, socket);
}
