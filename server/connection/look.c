/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/connection/look.h"

#include "server/connection/conn.h"
#include "server/connection/negotiation.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/container_of.h"

#include <stdlib.h>
#include <string.h>

/* Seconds that a client waits; a whole one at least. */
#define LIMIT 2

static void
look_discard(struct look *look)
{
	free(look->owner);
	free(look);
}

static void
look_delivered(struct worker *worker, struct worker_message *message)
{
	struct look *look = container_of(message, struct look, message);
	struct conn *conn = look->conn;
	void (*go_on)(struct conn * conn) = look->go_on;

	worker->looks--;
	look_discard(look);
	if (!conn)
		return;
	conn->negotiation->look = NULL;
	go_on(conn);
}

bool
look_begin(struct conn *conn, void (*go_on)(struct conn *conn))
{
	struct worker *worker = conn->worker;
	struct applicant *applicant = &conn->negotiation->applicant;
	struct look *look = calloc(1, sizeof(*look));

	/* From now on it can be found, whatever comes of the look. */
	applicant->looked_at = applicant->wanted;
	if (!look)
		return false;
	*look = (struct look){
		.message = {.deliver = look_delivered},
		.worker = worker,
		.export = applicant->wanted,
		.conn = conn,
		.go_on = go_on,
		.limit = clock_seconds(CLOCK_MONOTONIC) + LIMIT,
	};
	if (applicant->owner)
		look->owner = strdup(applicant->owner);
	if ((applicant->owner && !look->owner) ||
	    worker->config->look(worker->config->exports, look) < 0) {
		look_discard(look);
		return false;
	}
	worker->looks++;
	conn->negotiation->look = look;
	return true;
}

void
look_forget(struct conn *conn)
{
	struct look *look = conn->negotiation ? steal_pointer(&conn->negotiation->look) : NULL;

	if (look)
		look->conn = NULL;
}

void
look_check(struct conn *conn, time_t now)
{
	const struct look *look = conn->negotiation ? conn->negotiation->look : NULL;
	void (*go_on)(struct conn * conn);

	if (!look || now < look->limit)
		return;
	go_on = look->go_on;
	look_forget(conn);
	go_on(conn);
}
