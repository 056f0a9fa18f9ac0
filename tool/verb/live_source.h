/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The source of a backup that is an image in use: a device of nbdloop, or an export of an nbdloopd
 * by its control socket. What is copied is a snapshot, which is removed in every case; a checkpoint
 * begins at its moment, and stays if the target may belong to it.
 *
 * Names tell which target they are for: "backup-TARGET-RANDOM". So a backup finds what earlier ones
 * that were killed have left, and never that of another target.
 */
#ifndef TOOL_VERB_LIVE_SOURCE_H
#define TOOL_VERB_LIVE_SOURCE_H

#include "tool/backup/backup.h"
#include "tool/verb/snapshot_request.h"

struct live_source {
	struct backup_moment moment;
	struct asked_server server;
	struct snapshot_options how;
	bool locked;  /* the target has a lock: no other backup into it is running */
	char *text;   /* which image it is, for the target's state and for messages */
	char *origin; /* the name of its export */
	char *prefix; /* of the names for this target */
	char *name;   /* of this backup's snapshot and checkpoint */
	json_t *made; /* the status of the snapshot; NULL: there is none */
};

/* What identifies the image. */
struct live_source_wish {
	const char *source; /* DEVICE or SOCKET */
	const char *export; /* NULL: the only one */
	const char *target; /* the path of what tells what the target is a copy of */
	bool checkpoint;    /* the target can belong to one */
};

/* Finds the server and its export. The caller closes it in every case. */
bool
live_source_open(struct live_source *live, const struct live_source_wish *wish,
		 const struct snapshot_options *how, GError **error);

void
live_source_close(struct live_source *live);

#endif
