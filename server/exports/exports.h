/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of exports: which images are served, the offers of them to clients, and who uses them.
 * Any thread may call these functions, unless a comment says otherwise.
 *
 * Above the list: export_source.h finds exports for clients; export_image.h opens them;
 * export_limits.h, export_changes.h and snapshots.h change them; export_look.h looks at their
 * images.
 */
#ifndef SERVER_EXPORTS_EXPORTS_H
#define SERVER_EXPORTS_EXPORTS_H

#include "server/config/server_config.h"
#include "server/connection/offer.h"
#include "server/worker/worker.h"

#include <pthread.h>
#include <stddef.h>

struct closing;
struct looks;

struct exports {
	struct worker *workers;
	/* The caller may set these two before an export is opened. */
	bool reserved; /* --swap: only images whose requests need no new memory may be served */
	uid_t user;    /* that the process will become; else the present one */
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
	uint64_t connections_with_clones; /* so far: clones.c's */
	struct export_config defaults;    /* only its rules and limits */
	bool over;                        /* no other client has to wait any more */

	struct looks *looks; /* of export_look.c; NULL: nobody looks */
	_Atomic bool reload; /* see exports_want_reload(), in export_look.h */

	/* Of exports_tell_closed(); NULL: nobody is told. */
	void (*closed)(void *data);
	void *closed_data;
};

/* `workers`: the array of workers, which may start later. `wake` is called, on any thread, when
 * exports_reap() has something to do, or when a change has ended. NULL: out of memory. */
struct exports *
exports_new(struct worker *workers, unsigned int worker_count, void (*wake)(void *data),
	    void *data);

/* Has exports_free() call `closed`, on its thread, after each image that it has closed, or for
 * which it has waited. */
void
exports_tell_closed(struct exports *exports, void (*closed)(void *data), void *data);

/* No worker may run any more, and nobody look (exports_stop_looking()). NULL is fine. */
void
exports_free(struct exports *exports);

/* After wake(): frees the offers that are no longer in use, and has their images closed, for which
 * it doesn't wait. */
void
exports_reap(struct exports *exports);

struct visited {
	struct export *export;
	struct access *access;              /* its rules now; NULL: it has none */
	struct limits limits[LIMIT_SCOPES]; /* the same; of a snapshot, its origin's */
	unsigned int connections;
};

/* Calls `visit` for the export of that name, or for all of them (NULL). Returns the number of
 * calls. `visit` NULL: only counts. Does not wait for changes. */
unsigned int
exports_visit(struct exports *exports, const char *name,
	      void (*visit)(void *data, const struct visited *visited), void *data);

/* The n-th offer that clients can have now; NULL: there are fewer. It stays valid as long as no
 * export is changed or removed. */
struct offer *
exports_at(struct exports *exports, size_t n);

/* How many connections have chosen a snapshot. */
unsigned int
exports_snapshot_connections(struct exports *exports);

/* Returns whether some image is reached through io_uring; to be asked before clients connect. If
 * not, event loops use epoll, too: together with plain calls, it serves an image in memory fastest.
 * An image that needs io_uring and is added to such a server gets a ring of its own for each thread
 * (engine/backend/uring.c). */
bool
exports_use_ring(struct exports *exports);

/* The rules and limits of exports that are added without their own: notes those of the
 * configuration, and copies the noted ones. 0 or -ENOMEM, and nothing has changed. */
int
exports_note_defaults(struct exports *exports, const struct export_config *defaults);
int
exports_copy_defaults(struct exports *exports, struct export_config *defaults);

/* As image_stop_waiting(), for all images. */
void
exports_stop_waiting(struct exports *exports);

/* Returns whether all images, of which there is at least one, may be left (image_may_be_left()). */
bool
exports_may_be_left(struct exports *exports);

/* Returns whether an image that has not been closed is a snapshot, or may be one. */
bool
exports_have_snapshots(struct exports *exports);

/* ---- for the workers */

/* A connection of the client to the offer has ended. */
void
exports_left(struct exports *exports, struct offer *offer, struct export_client *client);

/* A worker has forgotten the offer. */
void
exports_forgotten(struct exports *exports, struct offer *offer);

/* ---- for what changes exports */

/* Begins a change, which holds `changing`, of the export of that name; without a name, of the only
 * one that is no snapshot. Returns its offer, which stays in the list until it is changed; NULL:
 * there is no such export. exports_end_change() is to be called in both cases. */
struct offer *
exports_begin_change(struct exports *exports, const char *name);
void
exports_end_change(struct exports *exports);

/* mutex held. The place in the list of the offer of that name, or of the only one that is no
 * snapshot; or NULL. */
struct offer **
exports_find(struct exports *exports, const char *name, size_t length);
struct offer **
exports_only(struct exports *exports);

/* mutex held. The place in the list of the offer of that name; without a name, of the only one.
 * NULL: there is no such export, or more than one. */
struct offer **
exports_find_or_only(struct exports *exports, const char *name);

/* changing held. Offers an export with an open image to clients, under these rules, and logs how
 * it is reached. Takes the export over. 0, or -errno with *error a sentence (caller frees). */
int
exports_offer(struct exports *exports, struct export *export, struct access *access, char **error);

/* Tells the program that started the server why the export is not served, unless it is a snapshot,
 * and frees it. */
void
export_refuse(struct exports *exports, struct export *export, int r, const char *error);

/* changing held. A new offer with the image's present facts, and these rules, replaces the old one
 * in the list. 0 or -ENOMEM. With 0, the old offer may be freed at once, by exports_reap() on
 * another thread; its export stays. */
int
exports_renew(struct exports *exports, struct offer *old, struct access *access);

/* changing held. The same with the offer's own rules, if the image's facts have changed. */
int
exports_refresh(struct exports *exports, struct offer *offer);

/* changing and mutex held. Offers the export no longer, nor its snapshots. */
void
exports_retire(struct exports *exports, const struct export *export);

/* Closes the image; the export may be incomplete. */
void
export_free(struct exports *exports, struct export *export);

/* One user fewer: the last one has the image closed, which may take a while, on a thread of its
 * own. */
void
export_put(struct exports *exports, struct export *export);

#endif
