/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/exports/export_limits.h"

#include "server/exports/export_clients.h"
#include "server/exports/exports.h"
#include "server/limit/limiter.h"
#include "server/connection/conn.h"
#include "server/connection/throttle.h"
#include "server/worker/worker.h"

#include "common/clock.h"
#include "common/error.h"

#include <errno.h>
#include <string.h>

void
exports_limiters(struct exports *exports, struct offer *offer, struct export_client *client,
		 struct limiter *limiters[LIMIT_SCOPES])
{
	pthread_mutex_lock(&exports->mutex);
	limiters[LIMIT_EXPORT] = limiter_hold(limited_export(offer->export)->limiter);
	limiters[LIMIT_CLIENT] = limiter_hold(client->limiter);
	pthread_mutex_unlock(&exports->mutex);
}

/* ---- changes */

/* On the worker's thread. `changing` is held, and therefore the limiters stay the same. */
static void
limits_follow(struct worker *worker, void *data)
{
	struct export *export = data;

	for (struct conn *conn = worker->conns; conn; conn = conn->next) {
		if (!conn->offer || limited_export(conn->offer->export) != export)
			continue;
		throttle_set_limiters(conn, (struct limiter *const[LIMIT_SCOPES]){
						    [LIMIT_EXPORT] = export->limiter,
						    [LIMIT_CLIENT] = conn->client->limiter,
					    });
	}
}

/* What a change replaces, and with what. */
struct limits_change {
	const struct limits *limits; /* by limit_scope, as the next ones */
	struct limits old[LIMIT_SCOPES];
	bool rates[LIMIT_SCOPES]; /* those of operations and bytes are others */
	struct limiter *limiter;  /* of the export: the new one, then the old one; NULL: no limit */
};

static void
limits_swap(struct export *export, struct limits_change *change)
{
	struct limiter *other = export->limiter;

	if (!change->rates[LIMIT_EXPORT])
		return;
	export->limiter = change->limiter;
	change->limiter = other;
}

/* mutex held. */
static int
limits_begin(struct export *export, struct limits_change *change, uint64_t now)
{
	int r = 0;

	if (change->rates[LIMIT_CLIENT])
		r = export_limit_clients(export, &change->limits[LIMIT_CLIENT], now);
	if (r < 0)
		return r;
	limits_swap(export, change);
	memcpy(change->old, export->limits, sizeof(change->old));
	memcpy(export->limits, change->limits, sizeof(export->limits));
	return 0;
}

/* Clients that join from the beginning of the change on get the new limiters by themselves. */
static int
limits_carry_out(struct exports *exports, struct export *export, struct limits_change *change,
		 uint64_t now)
{
	int r;

	pthread_mutex_lock(&exports->mutex);
	r = limits_begin(export, change, now);
	pthread_mutex_unlock(&exports->mutex);
	if (r < 0)
		return r;
	if (change->rates[LIMIT_EXPORT] || change->rates[LIMIT_CLIENT])
		r = workers_call(exports->workers, exports->worker_count, limits_follow, export);
	pthread_mutex_lock(&exports->mutex);
	if (r < 0) {
		limits_swap(export, change);
		memcpy(export->limits, change->old, sizeof(export->limits));
	}
	export_end_limiting(export, r == 0);
	pthread_mutex_unlock(&exports->mutex);
	return r;
}

int
exports_follow_limits(struct exports *exports, struct export *export,
		      const struct limits limits[LIMIT_SCOPES])
{
	struct limits_change change = {.limits = limits};
	uint64_t now = clock_ns(CLOCK_BOOTTIME);
	int r = 0;

	/* The others' budgets go on as they are, with their bursts. */
	for (unsigned int scope = 0; scope < LIMIT_SCOPES; scope++)
		change.rates[scope] = !limits_rates_same(&export->limits[scope], &limits[scope]);
	/* A change brings no burst, or many changes would bring many. */
	if (change.rates[LIMIT_EXPORT])
		r = limiter_new(&change.limiter, &limits[LIMIT_EXPORT], now);
	if (r == 0)
		r = limits_carry_out(exports, export, &change, now);
	limiter_release(change.limiter);
	return r;
}

/* changing held. An option that is not given stays. */
static int
export_change_limits(struct exports *exports, struct export *export,
		     const struct limit_texts texts[LIMIT_SCOPES], char **error)
{
	struct limits limits[LIMIT_SCOPES];
	int r = 0;

	if (export->origin)
		return error_set(error, -EINVAL,
				 "export \"%s\": a snapshot is under the limits of its export",
				 export->config->name);
	memcpy(limits, export->limits, sizeof(limits));
	for (unsigned int scope = 0; r == 0 && scope < LIMIT_SCOPES; scope++)
		r = limits_parse(scope, &texts[scope], &limits[scope], error);
	return r < 0 ? r : exports_follow_limits(exports, export, limits);
}

int
exports_set_limits(struct exports *exports, const char *name,
		   const struct limit_texts texts[LIMIT_SCOPES], char **error)
{
	struct offer *offer = exports_begin_change(exports, name);
	int r;

	*error = NULL;
	r = offer ? export_change_limits(exports, offer->export, texts, error) : -ENOENT;
	exports_end_change(exports);
	return r;
}
