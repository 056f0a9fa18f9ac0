/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by export_end.c and export_map.c: an export as an end of a copy, from inside.
 */
#ifndef TOOL_BACKUP_EXPORT_END_STATE_H
#define TOOL_BACKUP_EXPORT_END_STATE_H

#include "tool/backup/export_connection.h"

struct export_end {
	struct end end;
	struct export_end_options options; /* its texts are copies: connections are made again */
	uint64_t size;                     /* bytes */
	bool tells_allocation;             /* the server has base:allocation */
	bool can_flush;
	int count; /* of the connections; at least 1 */
	struct export_connection connections[END_POLLED_MAX];
	GQueue waiting;      /* requests that are not sent */
	unsigned int losses; /* of connections */
	gint64 last_answer;  /* us, monotonic; or when there was nothing to ask */
	GError *why;         /* the last attempt to connect has failed; or NULL */
};

/* Carries out one request while no others are in flight. */
bool
export_end_ask(struct export_end *export, struct end_request *request, GError **error);

#endif
