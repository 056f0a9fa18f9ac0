/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clients of exports, and the limits that they are under. All connections to an export and its
 * snapshots whose identity has the same rule (server/access/identity.h) are those of one client.
 *
 * A client that is gone stays here until its budgets have rested: it would get another burst if it
 * came back as a new one.
 *
 * The caller holds the exports' mutex, unless a comment says otherwise.
 */
#ifndef SERVER_EXPORTS_EXPORT_CLIENTS_H
#define SERVER_EXPORTS_EXPORT_CLIENTS_H

#include "server/connection/offer.h"

/* Without mutex. The export whose limits count: of a snapshot, its origin. */
struct export *
limited_export(struct export *export);

/* Without mutex, for a new export: it gets the limits of its configuration. 0 or -ENOMEM. */
int
export_begin_limits(struct export *export);

/* Without mutex: the export has no connections, and is freed. */
void
export_end_limits(struct export *export);

/* The limits that an export, or a snapshot, is under, by limit_scope. */
const struct limits *
export_limits(struct export *export);

/* Returns whether the export has as many connections as its limits allow. */
bool
export_is_full(struct export *export);

/* The client that counts as `rule` has one more connection to the export. 0; -EUSERS: it has as
 * many as its limits allow; or -ENOMEM. */
int
export_join(struct export *export, const char *rule, struct export_client **client);

/* The client has one connection fewer. */
void
export_leave(struct export *export, struct export_client *client);

/* changing held, too. All clients get limiters for these limits, without a burst at `now` (as in
 * budget_init()), until export_end_limiting() keeps them or takes them back. 0, or -ENOMEM and
 * nothing has changed. */
int
export_limit_clients(struct export *export, const struct limits *limits, uint64_t now);
void
export_end_limiting(struct export *export, bool kept);

#endif
