/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes of the limits of exports: of those of all clients together, and of those of each client.
 * A snapshot is under the limits of its export: its clients use the same budgets.
 */
#ifndef SERVER_EXPORTS_EXPORT_LIMITS_H
#define SERVER_EXPORTS_EXPORT_LIMITS_H

#include "server/connection/offer.h"

/* The limits that connections of the client to the offer are under now, by limit_scope, held for
 * the caller; NULL: none. */
void
exports_limiters(struct exports *exports, struct offer *offer, struct export_client *client,
		 struct limiter *limiters[LIMIT_SCOPES]);

/* Changes those limits of an export, by limit_scope, that are given; without a name, of the only
 * export. Its connections are under the new ones from then on. Returns 0; -ENOENT: there is no such
 * export; or -errno with *error a sentence (caller frees). */
int
exports_set_limits(struct exports *exports, const char *name,
		   const struct limit_texts texts[LIMIT_SCOPES], char **error);

/* changing held. The export gets these limits, by limit_scope, which may be the same. 0 or
 * -ENOMEM. */
int
exports_follow_limits(struct exports *exports, struct export *export,
		      const struct limits limits[LIMIT_SCOPES]);

#endif
