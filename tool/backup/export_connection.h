/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One connection of an export at the end of a copy, and its requests in flight.
 */
#ifndef TOOL_BACKUP_EXPORT_CONNECTION_H
#define TOOL_BACKUP_EXPORT_CONNECTION_H

#include "tool/backup/end.h"
#include "tool/backup/export_options.h"
#include "tool/backup/libnbd_library.h"

#include <glib.h>
#include <poll.h>
#include <stdbool.h>

#define CONTEXT_BASE   "base:allocation"
#define BITMAP_CONTEXT "qemu:dirty-bitmap:" /* before a bitmap's name */

/* A request for a map of a context. */
struct map_request {
	struct end_request request;
	const char *context;
	GArray *entries;            /* the server's: pairs of uint32_t, length and flags */
	unsigned int short_answers; /* export_end.c's */
};

struct export_connection {
	struct nbd_handle *handle; /* NULL: it is lost */
	GQueue flights;            /* private */
	gint64 since;    /* of the last answer, or when one was asked for; us, monotonic */
	gint64 next_try; /* to make it again; us, monotonic */
};

/* Connects within 10 seconds.  ENOTCONN: not now, but it may be worth another try; other errors are
 * for good. */
bool
export_connection_open(struct export_connection *connection,
		       const struct export_end_options *options, GError **error);

/* Sends a request.  False: it's not sent, and *error is set; or the connection is lost. */
bool
export_connection_send(struct export_connection *connection, struct end_request *request,
		       GError **error);

void
export_connection_prepare(const struct export_connection *connection, struct pollfd *polled);

/* What poll() has found. */
void
export_connection_notify(struct export_connection *connection, const struct pollfd *polled);

/* Takes a request that the server has answered; *failed is 0 or its errno.  NULL: there is none. */
struct end_request *
export_connection_answered(struct export_connection *connection, int *failed);

/* Whether the server owes an answer that is not only that to a flush. */
bool
export_connection_is_due(const struct export_connection *connection);

bool
export_connection_is_lost(const struct export_connection *connection);

/* Closes it.  Requests that were not answered go to the head of `unanswered`. */
void
export_connection_lose(struct export_connection *connection, GQueue *unanswered);

#endif
