/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Snapshots that a server makes for a verb, and the options that say how.
 */
#ifndef TOOL_VERB_SNAPSHOT_REQUEST_H
#define TOOL_VERB_SNAPSHOT_REQUEST_H

#include "tool/verb/asked_server.h"

#include "common/option_row.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct snapshot_options {
	char *scratch;         /* a directory, or NULL */
	uint64_t scratch_size; /* bytes; 0: no limit */
	unsigned int expire;   /* seconds; 0: never */
	unsigned int freeze;
};

/* Their rows but that of .expire, in the table of a verb whose options have them as `member`. */
#define SNAPSHOT_OPTION_ROWS(type_, member)                                                        \
	OPTION_TEXT("scratch", 0, offsetof(type_, member.scratch), "DIR",                          \
		    "directory of the scratch file (default: that of the image)"),                 \
		{                                                                                  \
			.name = "scratch-size",                                                    \
			.type = OPTION_SIZE,                                                       \
			.field = offsetof(type_, member.scratch_size),                             \
			.arg = "SIZE",                                                             \
			.help = "limit of that file; 0 means no limit (default: 0)",               \
		},                                                                                 \
		OPTION_SWITCH("freeze", 0, offsetof(type_, member.freeze),                         \
			      "sync and freeze the mounted file systems of the device meanwhile")

/* What is wanted; texts are borrowed. */
struct snapshot_request {
	const char *name;       /* of the new export; of all: each is ORIGIN@name */
	const char *origin;     /* NULL: the only export */
	const char *checkpoint; /* that begins at the same moment; NULL: none */
	bool all;               /* of each export of the server, at one moment */
	bool local;             /* the answer is to have a URI, also if the server listens */
};

/* Has it made.  Returns the server's answer, which the caller frees (json_decref): the status of
 * the new export, or `all`, an object with the array "exports" of these.  NULL with an error: there
 * is neither snapshot nor checkpoint. */
json_t *
snapshot_make(const struct asked_server *server, const struct snapshot_options *options,
	      const struct snapshot_request *request, GError **error);

/* Removes the export of that name; with `checkpoint` (or NULL) also ends that checkpoint of the
 * export that it is a snapshot of.  `snapshot`: its status. */
bool
snapshot_remove(const struct asked_server *server, json_t *snapshot, const char *checkpoint,
		GError **error);

#endif
