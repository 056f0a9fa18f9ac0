/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of exports, and how long an export lives: shared by exports.c, which offers them to
 * clients, and export_changes.c, which changes them.
 */
#ifndef SERVER_EXPORTS_EXPORTS_STATE_H
#define SERVER_EXPORTS_EXPORTS_STATE_H

#include "server/config/server_config.h"
#include "server/connection/offer.h"
#include "server/worker/worker.h"

#include <pthread.h>

/* An image that a thread of its own closes, since that may wait for the disk. */
struct closing {
	struct exports *exports;
	struct export *export; /* the thread's */
	pthread_t thread;
	bool may_be_left; /* as image_may_be_left() said of the image */
	bool done;
	struct closing *next;
};

struct exports {
	struct worker *workers;
	bool reserved; /* --swap */
	uid_t user;    /* that the server runs as, or will */
	unsigned int worker_count;
	void (*wake)(void *data);
	void *data;

	pthread_mutex_t changing; /* one change after another; may be held for long */

	/* Guards the following, and the offers' own fields; held only for moments. */
	pthread_mutex_t mutex;
	struct offer *listed;     /* one for each export that clients can choose */
	struct offer *retired;    /* older offers, and those of removed exports */
	pthread_cond_t forgotten; /* all workers have forgotten a retired offer */
	struct closing *closing;
	struct export_config defaults; /* only its rules and limits */
	bool over;                     /* no other client has to wait any more */

	struct looks *looks; /* of export_look.c; NULL: nobody looks */
	_Atomic bool reload; /* see exports_want_reload() */

	/* Of exports_tell_closed(); NULL: nobody is told. */
	void (*closed)(void *data);
	void *closed_data;
};

/* mutex held.  The place in the list of the offer of that name, or of the only one that is no
 * snapshot; or NULL. */
struct offer **
exports_find(struct exports *exports, const char *name, size_t length);
struct offer **
exports_only(struct exports *exports);

/* mutex held.  The place in the list of the offer of that name; without a name, of the only one.
 * NULL: there is no such export, or more than one. */
struct offer **
exports_find_or_only(struct exports *exports, const char *name);

/* changing held.  A new offer with the image's present facts, and these rules, replaces the old one
 * in the list.  0 or -ENOMEM.  With 0, the old offer may be freed at once, by exports_reap() on
 * another thread; its export stays. */
int
exports_renew(struct exports *exports, struct offer *old, struct access *access);

/* changing held.  The same with the offer's own rules, if the image's facts have changed. */
int
exports_refresh(struct exports *exports, struct offer *offer);

/* changing held.  Adopts the size that the export's image has now, logs that, and offers it to new
 * clients.  `shrunk`: it was smaller meanwhile.  0, or -ENOMEM: it is not offered. */
int
export_adopt_size(struct exports *exports, struct export *export, bool shrunk);

/* Ends the thread that looks for clients; no look is under way. */
void
exports_stop_looking(struct exports *exports);

/* Follows, from now on, the sizes that others give the export's image. */
void
exports_follow_size(struct export *export);

/* changing held.  New clients get these rules, which may be the same.  0 or -ENOMEM.  The offer may
 * be freed by then, as after exports_renew(). */
int
exports_follow_access(struct exports *exports, struct offer *offer, struct access *access);

/* A new export gets those of its configuration.  0 or -ENOMEM. */
int
export_begin_limits(struct export *export);

/* The export has no connections, and is freed. */
void
export_end_limits(struct export *export);

/* changing held.  The export gets these limits, by limit_scope, which may be the same.  0 or
 * -ENOMEM. */
int
exports_follow_limits(struct exports *exports, struct export *export,
		      const struct limits limits[LIMIT_SCOPES]);

/* mutex held.  The limits that an export, or a snapshot, is under, by limit_scope. */
const struct limits *
export_limits(struct export *export);

/* mutex held.  Whether the export has as many connections as its limits allow. */
bool
export_is_full(struct export *export);

/* mutex held.  The client that counts as `rule` has one more connection to the export.  0; -EUSERS:
 * it has as many as its limits allow; or -ENOMEM. */
int
export_join(struct export *export, const char *rule, struct export_client **client);

/* mutex held.  The client has one connection fewer. */
void
export_leave(struct export *export, struct export_client *client);

/* No connection is left. */
void
export_free_clients(struct export *export);

/* mutex and changing held.  All clients get limiters for these limits, without a burst at `now`
 * (as in budget_init()), until export_end_limiting() keeps them or takes them back.  0, or -ENOMEM
 * and nothing has changed. */
int
export_limit_clients(struct export *export, const struct limits *limits, uint64_t now);
void
export_end_limiting(struct export *export, bool kept);

/* The export whose limits count: of a snapshot, its origin. */
struct export *
limited_export(struct export *export);

/* changing held.  As exports_add(), for a name that is free. */
int
exports_open(struct exports *exports, struct export_config *config, char **error);

/* Ends a change: `changing` is held until now. */
void
exports_end_change(struct exports *exports);

/* changing held.  Offers an export with an open image to clients, under these rules, and logs how
 * it is reached.  Takes the export over.  0, or -errno with *error a sentence (caller frees). */
int
exports_offer(struct exports *exports, struct export *export, struct access *access, char **error);

/* changing and mutex held.  Offers the export no longer, nor its snapshots. */
void
exports_retire(struct exports *exports, const struct export *export);

/* changing held.  Ends the connections to retired snapshots, whose space is wanted back. */
void
exports_end_snapshots(struct exports *exports);

/* changing held.  The snapshots of an export get its new rules.  0 or -ENOMEM. */
int
exports_follow_origin(struct exports *exports, const struct export *origin, struct access *access);

/* Closes the image; the export may be incomplete. */
void
export_free(struct exports *exports, struct export *export);

/* One user fewer: the last one has the image closed, which may take a while, on a thread of its
 * own. */
void
export_put(struct exports *exports, struct export *export);

#endif
