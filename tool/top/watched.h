/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What nbdloop top watches: a device, or a server by its control socket.  A thread asks its server,
 * so a server that hangs delays neither the other servers nor the screen.  Only one thread at a
 * time asks for a source, for at most some 10 seconds.
 */
#ifndef TOOL_TOP_WATCHED_H
#define TOOL_TOP_WATCHED_H

#include "tool/show/figures.h"
#include "tool/show/listing.h"

#include <glib.h>
#include <jansson.h>
#include <stdbool.h>

/* What a thread found out. */
struct answer {
	int64_t time;            /* of its end: monotonic, microseconds */
	struct listing *listing; /* of a device; NULL: of a server, or the device is gone */
	json_t *status;          /* the server's, or NULL; a reference of its own */
	char *image;             /* of a device: listing_source(), which looks at the file */
	char *trouble;           /* a sentence, or NULL */
	int error;               /* of .trouble, of a server: an errno; 0: none */
};

struct watched {
	gatomicrefcount references; /* the owner's, and that of a thread */
	bool device;
	bool found; /* by a search: the user has not named it */
	bool seen;  /* by the search that goes on */
	char *name; /* "nbd0", or the path of a control socket */

	/* The owner's: the two last answers with a status, and the kernel's counters, NULL or 0 if
	 * there are none yet. */
	struct answer *before, *now;
	struct sample kernel_before, kernel_now; /* of a device; .time 0: none */
	char *trouble;                           /* of the last answer, or NULL */
	int64_t asked; /* since when there is no answer: monotonic, microseconds; 0: there is one */

	GMutex mutex;         /* guards: */
	struct answer *fresh; /* not taken yet */
	bool busy;            /* a thread is asking */
};

/* Caller drops it (watched_drop). */
struct watched *
watched_new(bool device, const char *name);

/* Gives up the owner's reference. */
void
watched_drop(struct watched *source);

/* Reads the kernel's counters, and has `pool` (watched_pool_new) ask the server, unless a thread
 * still does. */
void
watched_ask(struct watched *source, GThreadPool *pool);

/* Takes a fresh answer, if there is one. */
void
watched_take(struct watched *source);

/* Returns whether a server that was found has ended meanwhile. */
bool
watched_is_gone(const struct watched *source);

/* Returns whether a server that was found answers only other users. */
bool
watched_is_denied(const struct watched *source);

/* `event` is an eventfd, which each answer adds 1 to. */
GThreadPool *
watched_pool_new(int event, GError **error);

#endif
