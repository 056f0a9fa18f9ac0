/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The limits of exports.  A snapshot is under those of its export: its clients use the same
 * budgets.
 */
#include "server/exports/exports.h"

#include "server/exports/exports_state.h"
#include "server/limit/limiter.h"
#include "server/serve/conn_state.h"
#include "server/serve/held.h"
#include "server/serve/worker_call.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"

#include <errno.h>

static struct export *
limited_export(struct export *export)
{
	return export->origin ? export->origin : export;
}

struct limiter *
exports_limiter(struct exports *exports, struct offer *offer)
{
	struct limiter *limiter;

	pthread_mutex_lock(&exports->mutex);
	limiter = limiter_hold(limited_export(offer->export)->limiter);
	pthread_mutex_unlock(&exports->mutex);
	return limiter;
}

bool
export_is_full(struct export *export)
{
	unsigned int most = limited_export(export)->limits.connections;

	return most && export->connections >= most;
}

const struct limits *
export_limits(struct export *export)
{
	return &limited_export(export)->limits;
}

int
export_begin_limits(struct export *export)
{
	export->limits = export->config->limits;
	return limiter_new(&export->limiter, &export->limits, 0);
}

/* ---- changes */

/* On the worker's thread. */
static void
follow(struct worker *worker, void *data)
{
	struct export *export = data;

	for (struct conn *conn = worker->conns; conn; conn = conn->next) {
		if (conn->offer && limited_export(conn->offer->export) == export)
			held_set_limiter(conn, export->limiter);
	}
}

/* mutex held. */
static struct limiter *
replace(struct export *export, const struct limits *limits, struct limiter *limiter)
{
	struct limiter *old = export->limiter;

	export->limiter = limiter;
	export->limits = *limits;
	return old;
}

/* changing held, and therefore the limiter stays the same meanwhile.  Clients that join from now on
 * get it by themselves.  0, or -ENOMEM and it is the old one again. */
static int
change_limiter(struct exports *exports, struct export *export, const struct limits *limits,
	       struct limiter *limiter)
{
	const struct limits old_limits = export->limits;
	struct limiter *old;
	int r;

	pthread_mutex_lock(&exports->mutex);
	old = replace(export, limits, limiter);
	pthread_mutex_unlock(&exports->mutex);
	r = workers_call(exports->workers, exports->worker_count, follow, export);
	if (r < 0) {
		pthread_mutex_lock(&exports->mutex);
		old = replace(export, &old_limits, old);
		pthread_mutex_unlock(&exports->mutex);
	}
	limiter_release(old);
	return r;
}

int
exports_follow_limits(struct exports *exports, struct export *export, const struct limits *limits)
{
	struct limiter *limiter;
	int r;

	/* The budgets go on as they are, with their bursts. */
	if (limits_rates_same(&export->limits, limits)) {
		pthread_mutex_lock(&exports->mutex);
		export->limits = *limits;
		pthread_mutex_unlock(&exports->mutex);
		return 0;
	}
	/* A change brings no burst, or many changes would bring many. */
	r = limiter_new(&limiter, limits, clock_ns(CLOCK_BOOTTIME));
	return r < 0 ? r : change_limiter(exports, export, limits, limiter);
}

/* changing held.  An option that is not given stays. */
static int
change_limits(struct exports *exports, struct export *export, const struct limit_texts *texts,
	      char **error)
{
	struct limits limits = export->limits;
	int r;

	if (export->origin)
		return error_set(error, -EINVAL,
				 "export \"%s\": a snapshot is under the limits of its export",
				 export->config->name);
	r = limits_parse(texts, &limits, error);
	return r < 0 ? r : exports_follow_limits(exports, export, &limits);
}

int
exports_set_limits(struct exports *exports, const char *name, const struct limit_texts *texts,
		   char **error)
{
	struct offer **at;
	int r;

	*error = NULL;
	pthread_mutex_lock(&exports->changing);
	pthread_mutex_lock(&exports->mutex);
	at = exports_find_or_only(exports, name);
	pthread_mutex_unlock(&exports->mutex);
	/* A listed offer stays while `changing` is held. */
	r = at ? change_limits(exports, (*at)->export, texts, error) : -ENOENT;
	exports_end_change(exports);
	return r;
}
