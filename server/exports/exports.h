/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exports of the server: opened, offered to clients, changed and removed while clients are
 * connected. Any thread may use them, except where it says otherwise.
 *
 * What clients were told of an export stays as it is (struct served): after a change, there is a
 * new one for those that come from then on.  The old one has retired, and is freed when its last
 * connection is gone and no worker has a context of it any more.
 */
#ifndef SERVER_EXPORTS_EXPORTS_H
#define SERVER_EXPORTS_EXPORTS_H

#include "server/serve/served.h"

#include <stddef.h>

struct exports;
struct source;
struct worker;

/* For the handshake; the data are the exports. */
extern const struct nbd_export_source exports_listed, exports_unlisted;

/* `workers`: that many will run; they needn't run yet.  `wake` is called, on any thread, when
 * exports_reap() has something to do, or a change is over. NULL: out of memory. */
struct exports *
exports_new(struct worker *workers, unsigned int worker_count, void (*wake)(void *data),
	    void *data);

/* No worker may run any more. NULL is fine. */
void
exports_free(struct exports *exports);

/* After wake(): frees what nobody uses any more. */
void
exports_reap(struct exports *exports);

/* One export, for a status. */
struct export_view {
	const char *name, *description; /* description: NULL: none */
	struct source *source;          /* whose these are */
	struct image *image;
	const struct traffic *traffic; /* one for each of `threads` */
	unsigned int threads;
	unsigned int connections;
};

/* Calls `visit` for the export of that name, or for all of them (NULL).  The number of calls.  It
 * waits for no change. */
unsigned int
exports_visit(struct exports *exports, const char *name,
	      void (*visit)(void *data, const struct export_view *view), void *data);

unsigned int
exports_count(struct exports *exports);

/* The n-th of those that clients can have now; NULL: there are fewer.  It stays as long as none is
 * removed. */
struct served *
exports_at(struct exports *exports, size_t n);

/* Whether some image is reached through io_uring: else event loops do without, for epoll and plain
 * calls serve an image in memory best.  One that is added to such a server has a ring of its own
 * for each thread (engine/backend/uring.c). */
bool
exports_use_ring(struct exports *exports);

/* For the workers. */
void
exports_left(struct exports *exports, struct served *served);
void
exports_forgotten(struct exports *exports, struct served *served);

#endif
