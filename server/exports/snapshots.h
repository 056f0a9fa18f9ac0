/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Snapshots as exports: read-only, with the rules of the export that they are made of, their
 * origin. They are not in the configuration, and end with their origin, at their time, or when they
 * are removed; then their clients are disconnected, so that their space is free at once.
 */
#ifndef SERVER_EXPORTS_SNAPSHOTS_H
#define SERVER_EXPORTS_SNAPSHOTS_H

#include "common/json.h"

#include <stdbool.h>
#include <stdint.h>

struct export;
struct exports;

struct snapshot_request {
	const char *name;       /* of the new export; with .all, each is named "ORIGIN@NAME" */
	const char *origin;     /* NULL: the only export that is no snapshot */
	bool all;               /* of each export that is no snapshot, at one moment */
	const char *checkpoint; /* that begins at that moment in the origins; NULL: none */
	const char *scratch;    /* a directory; NULL: that of the image */
	uint64_t scratch_size;  /* bytes; 0: no limit */
	unsigned int expire;    /* seconds until it is removed; 0: never */
};

/* Makes snapshots and offers them to clients, with what the checkpoints of their origins know at
 * that moment. A change of the exports: see exports.h. Returns 0; -ENOENT without *error: there is
 * no such origin; or -errno with *error a sentence (caller frees), and nothing has changed. */
int
exports_snapshot(struct exports *exports, const struct snapshot_request *request, char **error);

/* Returns whether the export is one that such a request has made. */
bool
snapshot_is_of_request(const struct export *export, const struct snapshot_request *request);

/* Removes the snapshots whose time is over. Returns how many milliseconds it takes until the next
 * one's time is over; -1: there is none. While another change is running, nothing is done, and
 * wake() is called at its end. On the main thread. */
int
exports_expire(struct exports *exports);

/* Writes the members of the status of an export that is a snapshot; nothing for another one.
 * `socket`: the path of a unix socket where clients can have it; NULL: they know where. */
void
snapshot_put_status(struct json *json, const struct export *export, const char *socket);

#endif
