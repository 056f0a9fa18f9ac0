/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The list of exports, and how long an export lives: shared by exports.c, which offers them to
 * clients, and export_changes.c, which changes them.
 */
#ifndef SERVER_EXPORTS_EXPORTS_STATE_H
#define SERVER_EXPORTS_EXPORTS_STATE_H

#include "server/config/server_config.h"
#include "server/serve/served.h"
#include "server/serve/worker.h"

#include <pthread.h>

/* An image with its configuration. */
struct source {
	struct image *image;
	struct export_config *config;
	struct traffic *traffic; /* one for each worker, by its number */
	unsigned int users;      /* exports, and who looks at it; guarded by the exports' mutex */
};

struct export
{
	struct served served; /* first: what the workers know */
	struct exports *exports;
	struct source *source;
	struct export *next;
	bool asked;                       /* retired: the workers are told to forget it */
	unsigned int pending;             /* workers that haven't yet */
	struct worker_message messages[]; /* one for each worker */
};

struct exports {
	struct worker *workers;
	unsigned int worker_count;
	void (*wake)(void *data);
	void *data;

	pthread_mutex_t changing; /* one change after another; may be held for long */

	/* Guards what follows, and what it says above; held only for moments. */
	pthread_mutex_t mutex;
	struct export *listed;
	struct export *retired;
	pthread_cond_t forgotten; /* by all workers: one that has retired */
};

/* Its configuration stands alone, and is owned by it. */
void
config_free(struct export_config *config);

/* Closes the image. */
void
source_free(struct source *source);

/* Nobody knows it any more. */
void
export_free(struct export *export);

/* Takes no longer part in using it; closes the image after its last user. */
void
source_put(struct exports *exports, struct source *source);

/* mutex held.  Connections to the same image, from before and after a change. */
unsigned int
source_connections(const struct exports *exports, const struct source *source);

#endif
