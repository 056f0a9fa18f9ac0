/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/exports/disconnection.h"

#include "server/access/rule.h"
#include "server/exports/exports.h"
#include "server/connection/conn.h"
#include "server/worker/worker.h"

#include "common/log.h"

#include <stdatomic.h>
#include <string.h>

struct disconnection {
	struct rules rules;
	const char *export; /* NULL: all */
	_Atomic unsigned int ended;
};

/* On the worker's thread. */
static void
disconnection_run(struct worker *worker, void *data)
{
	struct disconnection *disconnection = data;

	for (struct conn *conn = worker->conns; conn; conn = conn->next) {
		if (conn_is_lost(conn) || !rules_match(&disconnection->rules, conn->identity))
			continue;
		if (disconnection->export &&
		    (!conn->offer ||
		     (strcmp(conn->offer->facts.name, disconnection->export) != 0 &&
		      strcmp(conn->offer->export->config->name, disconnection->export) != 0)))
			continue;
		atomic_fetch_add_explicit(&disconnection->ended, 1, memory_order_relaxed);
		/* A client that does not read its replies must not delay the end. */
		conn_abort(conn);
	}
}

int
exports_disconnect(struct exports *exports, const char *clients, const char *name,
		   unsigned int *ended, char **error)
{
	struct disconnection disconnection = {.export = name};
	int r = rules_parse(&disconnection.rules, "disconnect", clients, error);

	if (r < 0)
		return r;
	r = workers_call(exports->workers, exports->worker_count, disconnection_run,
			 &disconnection);
	*ended = disconnection.ended;
	if (r == 0)
		log_info("disconnect %s: %u connection%s ended", clients, *ended,
			 *ended == 1 ? "" : "s");
	rules_fini(&disconnection.rules);
	return r;
}

/* ---- of removed snapshots */

/* On the worker's thread. */
static void
disconnection_of_snapshots(struct worker *worker, void *data)
{
	(void)data;
	for (struct conn *conn = worker->conns; conn; conn = conn->next) {
		if (conn->offer && conn->offer->export->ended && !conn_is_lost(conn))
			conn_abort(conn);
	}
}

void
exports_end_snapshots(struct exports *exports)
{
	const struct offer *offer;
	bool wanted;

	pthread_mutex_lock(&exports->mutex);
	offer = exports->retired;
	while (offer && (!offer->export->ended ||
			 atomic_load_explicit(&offer->connections, memory_order_relaxed) == 0))
		offer = offer->next;
	wanted = offer != NULL;
	pthread_mutex_unlock(&exports->mutex);
	if (wanted && workers_call(exports->workers, exports->worker_count,
				   disconnection_of_snapshots, NULL) < 0)
		log_warning("clients of removed snapshots stay connected: out of memory");
}
