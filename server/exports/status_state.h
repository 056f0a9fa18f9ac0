/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by server_status.c and status_moments.c.
 */
#ifndef SERVER_EXPORTS_STATUS_STATE_H
#define SERVER_EXPORTS_STATUS_STATE_H

#include "common/json.h"

struct control_request;
struct status;
struct visited;

/* For exports_visit(): writes the status of an export as an object. */
struct export_writer {
	struct json *json;
	const char *socket; /* for clients of snapshots, or NULL */
};

void
status_write_export(void *data, const struct visited *visited);

/* The path of the socket that is only for clients of snapshots; NULL: there is none. */
const char *
status_socket(const struct status *status);

/* Carry out requests of these kinds, and write their answers. */
void
status_make_snapshots(const struct status *status, const struct control_request *request,
		      struct json *json);
void
status_change_checkpoint(const struct status *status, const struct control_request *request,
			 struct json *json);

#endif
