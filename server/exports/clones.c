/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/exports/clones.h"

#include "server/exports/export_image.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Seconds for a connection to join its clone. */
#define JOIN_LIMIT 60

const char *
clones_owner(struct applicant *applicant, const struct export *export)
{
	if (export->config->clone == CLONE_OFF)
		return NULL;
	if (export->config->clone == CLONE_CLIENT)
		return applicant->rule;
	if (!applicant->number)
		applicant->number = ++applicant->exports->connections_with_clones;
	snprintf(applicant->by_number, sizeof(applicant->by_number), "connection:%" PRIu64,
		 applicant->number);
	return applicant->by_number;
}

struct offer *
clones_find(const struct exports *exports, const struct export *origin, const char *owner)
{
	struct offer *offer = exports->listed;

	while (offer && (offer->export->origin != origin || !offer->export->owner ||
			 strcmp(offer->export->owner, owner) != 0))
		offer = offer->next;
	return offer;
}

/* ---- making one */

/* mutex held. The offer of the origin, if it may have one more clone. 0; -ENOENT: it was removed;
 * -EEXIST: there is the clone; or -ENOSPC: there are too many. */
static int
clones_admit(const struct exports *exports, const struct export *origin, const char *owner,
	     struct access **access)
{
	const unsigned int most = origin->config->clones;
	unsigned int count = 0;
	int r = -ENOENT;

	if (clones_find(exports, origin, owner))
		return -EEXIST;
	for (const struct offer *offer = exports->listed; offer; offer = offer->next) {
		if (offer->export == origin) {
			*access = access_hold(offer->access);
			r = 0;
		}
		count += offer->export->origin == origin && offer->export->owner;
	}
	if (r < 0 || !most || count < most)
		return r;
	access_release(steal_pointer(access));
	return -ENOSPC;
}

static struct export_config *
clone_configure(const struct export_config *origin, const char *owner)
{
	struct export_config *config = calloc(1, sizeof(*config));

	if (!config)
		return NULL;
	if (config_copy_defaults(config, origin) < 0 ||
	    asprintf(&config->name, "%s@%s", origin->name, owner) < 0) {
		config->name = NULL;
		export_config_free(config);
		return NULL;
	}
	config->file = strdup(origin->file);
	config->clone = CLONE_OFF;
	config->image.temporary = TRISTATE_ON;
	if (config->file)
		return config;
	export_config_free(config);
	return NULL;
}

/* changing held. */
static struct export *
clone_new(struct exports *exports, struct export *origin, const char *owner)
{
	struct export *export = calloc(1, sizeof(*export));

	if (!export)
		return NULL;
	export->exports = exports;
	export->config = clone_configure(origin->config, owner);
	export->owner = strdup(owner);
	if (!export->config || !export->owner) {
		export_free(exports, export);
		return NULL;
	}
	if (origin->config->clone == CLONE_CONNECTION)
		export->expires = clock_seconds(CLOCK_BOOTTIME) + JOIN_LIMIT;
	pthread_mutex_lock(&exports->mutex);
	origin->users++;
	pthread_mutex_unlock(&exports->mutex);
	export->origin = origin;
	return export;
}

static void
clone_log_full(const struct export *origin, const char *owner)
{
	static struct log_limit limit = LOG_LIMIT_INIT(1, 60);
	char more[LOG_LEFT_OUT];
	unsigned int suppressed;

	if (log_limit_pass(&limit, &suppressed))
		log_warning("export \"%s\": no clone for %s: there are %u already "
			    "(clones-limit)%s",
			    origin->config->name, owner, origin->config->clones,
			    log_left_out(suppressed, more));
}

/* changing held. */
static int
clone_make(struct exports *exports, struct export *origin, const char *owner, char **error)
{
	struct access *access = NULL;
	struct export *export;
	int r;

	pthread_mutex_lock(&exports->mutex);
	r = clones_admit(exports, origin, owner, &access);
	pthread_mutex_unlock(&exports->mutex);
	if (r == -ENOSPC)
		clone_log_full(origin, owner);
	if (r < 0)
		return 0;
	export = clone_new(exports, origin, owner);
	r = export ? export_open(exports, export, error) : -ENOMEM;
	if (r == 0)
		r = exports_offer(exports, export, access, error);
	else if (export)
		export_free(exports, export);
	access_release(access);
	return r;
}

void
clones_make(struct exports *exports, struct export *origin, const char *owner)
{
	char *CLEANUP_FREE error = NULL;
	int r = clone_make(exports, origin, owner, &error);

	if (r < 0)
		log_error("export \"%s\": no clone for %s: %s", origin->config->name, owner,
			  error ? error : strerror(-r));
}
