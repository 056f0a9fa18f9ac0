/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An export, and its offers: all that workers and connections know of an image under a name. The
 * exports (server/exports/exports.h) own both.
 */
#ifndef SERVER_CONNECTION_OFFER_H
#define SERVER_CONNECTION_OFFER_H

#include "server/limit/limits.h"
#include "server/request/traffic.h"
#include "server/connection/worker_state.h"

#include "common/container_of.h"
#include "engine/image/image.h"
#include "nbd/export.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

struct access;
struct checkpoints;
struct export_config;
struct exports;
struct identity;
struct limiter;

/* What the limits of each client take for one client of an export. The exports' own, guarded by
 * their mutex, but for `rule`, which stays, and see `limiter`. */
struct export_client {
	char *rule; /* see identity_rule() */
	/* NULL: no limit. Held. Changed while `changing` is held, too. */
	struct limiter *limiter;
	struct limiter *former;   /* while its limits change: those before, or NULL */
	bool changes;             /* they do, and it was there when they began to */
	unsigned int connections; /* to the export and its snapshots */
	struct export_client *next;
};

/* An image under a name, from its opening to its closing. */
struct export
{
	struct exports *exports; /* that it belongs to */
	struct image *image;
	struct checkpoints *checkpoints; /* of the image; of a snapshot: a copy; NULL: none */
	struct export_config *config;
	struct traffic *traffic; /* one for each of `threads`, by the worker's number */
	unsigned int threads;
	/* Its limits, and the limiter for those of all clients together (NULL: none), of which it
	 * is a holder; of a snapshot, its origin's count. Changed while `changing` is held, guarded
	 * by the exports' mutex. */
	struct limits limits[LIMIT_SCOPES];
	struct limiter *limiter;
	/* Guarded by the mutex, too: its clients, and some that it has had; of a snapshot, its
	 * origin's count. */
	struct export_client *clients;
	/* Offers, snapshots, and readers of its status; connections to all of its offers, from
	 * before and after a change. Guarded by the exports' mutex. */
	unsigned int users, connections;
	bool reopens;          /* guarded by `changing`: its image can be written to now */
	struct export *origin; /* the export that this one is a snapshot or a clone of; or NULL */
	char *owner;           /* of a clone: the client whose it is; NULL: it is none */
	_Atomic bool ended;    /* a snapshot that was removed */
	/* When a snapshot or clone is removed, CLOCK_BOOTTIME, seconds; 0: never. A clone's is
	 * guarded by the mutex. */
	time_t expires;
};

static inline bool
export_is_snapshot(const struct export *export)
{
	return export->origin && !export->owner;
}

/*
 * An export with the facts that its clients are told, and with the rules that say which clients may
 * use it. An offer never changes: after a change of the image or of the rules, new clients get a
 * new offer, and the old one is retired. It is freed when its last connection has ended and no
 * worker has a context for it any more.
 */
struct offer {
	struct export *export;
	struct nbd_export facts; /* its strings belong to the configuration of the export, or of a
				    clone's origin */
	struct access *access;   /* NULL: all clients may read and write */
	_Atomic unsigned int connections;

	/* The exports' own, guarded by their mutex. */
	struct exports *exports;
	struct offer *next;
	bool asked;                       /* retired, and the workers are asked to forget it */
	unsigned int pending;             /* workers that have not forgotten it yet */
	struct worker_message messages[]; /* one for each worker */
};

/* A client that looks for an export: the data of the functions in the handshake's source of exports
 * (nbd/handshake_state.h). Belongs to the negotiation. */
struct applicant {
	struct exports *exports;
	const struct identity *identity;
	bool was_refused; /* the last export that it looked for */
	char *refused;    /* that export, or one before: a try of several options is logged once */
	struct export_client *client; /* once it has joined an export: how it counts there */
	/* The export at whose image somebody has to look before the applicant can find it, valid in
	 * this turn; and the last one that needs no look any more, which may be gone. */
	struct export *wanted;
	const struct export *looked_at;
	/* Whose clones it gets: by its rule, or, with a number of its own, by the connection. */
	char *rule;
	uint64_t number;    /* 0: none yet */
	char by_number[32]; /* as text */
	const char *owner;  /* with .wanted: of the clone that has to be made; NULL: none has */
};

static inline struct offer *
offer_of(const struct nbd_export *facts)
{
	return container_of(facts, struct offer, facts);
}

#endif
