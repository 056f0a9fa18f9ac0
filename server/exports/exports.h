/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exports of the server: opened, offered to clients, changed and removed while clients are
 * connected.  Any thread may call these functions, unless a comment says otherwise.
 */
#ifndef SERVER_EXPORTS_EXPORTS_H
#define SERVER_EXPORTS_EXPORTS_H

#include "server/config/server_config.h"
#include "server/connection/look.h"
#include "server/connection/offer.h"

#include <stddef.h>

/* For the handshake, in export_source.c; the data are a struct applicant. */
extern const struct nbd_export_source exports_listed, exports_unlisted;

/* `workers`: the array of workers, which may start later.  `wake` is called, on any thread, when
 * exports_reap() has something to do, or when a change has ended.  NULL: out of memory. */
struct exports *
exports_new(struct worker *workers, unsigned int worker_count, void (*wake)(void *data),
	    void *data);

/* The process will become this user; before that, it is the present one. */
void
exports_set_user(struct exports *exports, uid_t user);

/* --swap: only images whose requests need no new memory may be served. */
void
exports_reserve(struct exports *exports);

/* Has exports_free() call `closed`, on its thread, after each image that it has closed, or for
 * which it has waited. */
void
exports_tell_closed(struct exports *exports, void (*closed)(void *data), void *data);

/* No worker may run any more.  NULL is fine. */
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

/* Calls `visit` for the export of that name, or for all of them (NULL).  Returns the number of
 * calls.  Does not wait for changes. */
unsigned int
exports_visit(struct exports *exports, const char *name,
	      void (*visit)(void *data, const struct visited *visited), void *data);

/* The n-th offer that clients can have now; NULL: there are fewer.  It stays valid as long as no
 * export is changed or removed. */
struct offer *
exports_at(struct exports *exports, size_t n);

/* How many connections have chosen a snapshot. */
unsigned int
exports_snapshot_connections(struct exports *exports);

/* Whether some image is reached through io_uring; to be asked before clients connect.  If not,
 * event loops use epoll, too: together with plain calls, it serves an image in memory fastest.  An
 * image that needs io_uring and is added to such a server gets a ring of its own for each thread
 * (engine/backend/uring.c). */
bool
exports_use_ring(struct exports *exports);

/* ---- changes, in export_changes.c, export_image.c, export_access.c, export_limits.c and
 * export_checkpoints.c: only one runs at a time, on the thread that asks for it */

/* Opens an export, and logs how its image is reached.  Takes over the configuration, which is in no
 * list.  Returns 0, or -errno with *error a sentence (caller frees). */
int
exports_add(struct exports *exports, struct export_config *config, char **error);

/* Offers the export no longer; its connections stay.  0 or -ENOENT. */
int
exports_remove(struct exports *exports, const char *name);

/*
 * Follows a configuration that was read again: opens new exports, removes those that are missing,
 * changes the rules about who may use them, and logs which options have changed but need a restart.
 * Takes exports out of the configuration.
 */
void
exports_reload(struct exports *exports, struct server_config *config);

/* Changes the rules about who may use an export (server/access/access.h), for clients that choose
 * it from now on; without a name, of the only export.  NULL: that option stays as it is; for
 * `proofs`, see access_new().  Returns 0; -ENOENT: there is no such export; or -errno with *error a
 * sentence (caller frees). */
int
exports_set_access(struct exports *exports, const char *name, const char *allow,
		   const char *allow_write, unsigned int proofs, char **error);

/* Changes those limits of an export, by limit_scope, that are given; without a name, of the only
 * export.  Its connections are under the new ones from then on.  Returns 0; -ENOENT: there is no
 * such export; or -errno with *error a sentence (caller frees). */
int
exports_set_limits(struct exports *exports, const char *name,
		   const struct limit_texts texts[LIMIT_SCOPES], char **error);

/* The rules and limits of exports that are added without their own: notes those of the
 * configuration, and copies the noted ones.  0 or -ENOMEM, and nothing has changed. */
int
exports_note_defaults(struct exports *exports, const struct export_config *defaults);
int
exports_copy_defaults(struct exports *exports, struct export_config *defaults);

/* As image_stop_waiting(), for all images. */
void
exports_stop_waiting(struct exports *exports);

/* Whether all images, of which there is at least one, may be left (image_may_be_left()). */
bool
exports_may_be_left(struct exports *exports);

/* Whether an image that has not been closed is a snapshot, or may be one. */
bool
exports_have_snapshots(struct exports *exports);

/* As image_set_direct() and image_resize(), for the image of one export; without a name, of the
 * only export.  -ENOENT: there is no such export. */
int
exports_set_direct(struct exports *exports, const char *name, bool on, char **error);
int
exports_resize(struct exports *exports, const char *name, char **error);

/* changing held.  Opens the record of the checkpoints of an export that is not offered yet and
 * whose image is locked: that of changes=, or by default IMAGE.changes (IMAGE.OFFSET.changes),
 * unless the image is a block device or in Ceph, or memory is reserved.  0, -ENOMEM, or -EINVAL
 * with *error: another export, or this one, has the file for something else. */
int
exports_keep_checkpoints(const struct exports *exports, struct export *export, char **error);

/* Begins or ends a checkpoint of that name (engine/changes/checkpoint.h) of one export; without
 * `export`, of all exports, at one moment.  `granule`: in bytes.  Returns 0; -ENOENT without
 * *error: there is no such export; or -errno with *error a sentence (caller frees), and nothing has
 * changed. */
int
exports_begin_checkpoint(struct exports *exports, const char *export, const char *name,
			 uint64_t granule, char **error);
int
exports_end_checkpoint(struct exports *exports, const char *export, const char *name, char **error);

/* From now on, a client that chooses an export is told the size that its image has then.  To be
 * called once, before clients connect.  0 or -errno. */
int
exports_start_looking(struct exports *exports);

/* The configuration was read again: has all images looked at, soon.  The log tells what is found.
 */
void
exports_look_at_all(struct exports *exports);

/* After wake(): whether that has found images that exports_reload() is to open again. */
bool
exports_want_reload(struct exports *exports);

/* Whether a look is under way; it may wait for a file system that does not answer. */
bool
exports_are_looking(struct exports *exports);

/* ---- for the workers */

/* Looks at an image, on another thread, and then posts the look's message.  0; or -EBUSY: nobody
 * looks now. */
int
exports_look(struct exports *exports, struct look *look);

/* A connection of the client to the offer has ended. */
void
exports_left(struct exports *exports, struct offer *offer, struct export_client *client);

/* The limits that connections of the client to the offer are under now, by limit_scope, held for
 * the caller; NULL: none. */
void
exports_limiters(struct exports *exports, struct offer *offer, struct export_client *client,
		 struct limiter *limiters[LIMIT_SCOPES]);

/* A worker has forgotten the offer. */
void
exports_forgotten(struct exports *exports, struct offer *offer);

#endif
