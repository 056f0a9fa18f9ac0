/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clients of exports, as the limits of each client count them: all connections to an export and
 * its snapshots whose identity has the same rule (server/access/identity.h) are those of one
 * client.
 *
 * A client that is gone stays here until its budgets have rested: it would get another burst if it
 * came back as a new one.
 */
#include "server/exports/exports_state.h"
#include "server/limit/limiter.h"

#include "common/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Most clients that are gone and have not rested yet: the oldest is forgotten then. */
#define GONE_MAX 1024

static void
client_free(struct export_client *client)
{
	if (!client)
		return;
	limiter_release(client->limiter);
	limiter_release(client->former);
	free(client->rule);
	free(client);
}

static struct export_client *
client_new(const char *rule, const struct limits *limits)
{
	struct export_client *client = calloc(1, sizeof(*client));

	if (client)
		client->rule = strdup(rule);
	if (client && client->rule && limiter_new(&client->limiter, limits, 0) == 0)
		return client;
	client_free(client);
	return NULL;
}

static void
forget(struct export_client **at)
{
	struct export_client *client = *at;

	*at = client->next;
	client_free(client);
}

/* Forgets the clients that are gone and have rested; and, of too many, the oldest one. */
static void
forget_gone(struct export *export)
{
	uint64_t now = clock_ns(CLOCK_BOOTTIME);
	struct export_client **oldest = NULL;
	unsigned int gone = 0;

	for (struct export_client **at = &export->clients; *at;) {
		if ((*at)->connections == 0 && limiter_is_rested((*at)->limiter, now)) {
			forget(at);
			continue;
		}
		if ((*at)->connections == 0) {
			gone++;
			oldest = at;
		}
		at = &(*at)->next;
	}
	if (gone > GONE_MAX)
		forget(oldest);
}

int
export_join(struct export *export, const char *rule, struct export_client **joined)
{
	struct export *limited = limited_export(export);
	const struct limits *limits = &limited->limits[LIMIT_CLIENT];
	struct export_client *client;

	forget_gone(limited);
	client = limited->clients;
	while (client && strcmp(client->rule, rule) != 0)
		client = client->next;
	if (client && limits->connections && client->connections >= limits->connections)
		return -EUSERS;
	if (!client) {
		client = client_new(rule, limits);
		if (!client)
			return -ENOMEM;
		client->next = limited->clients;
		limited->clients = client;
	}
	client->connections++;
	*joined = client;
	return 0;
}

void
export_leave(struct export *export, struct export_client *client)
{
	client->connections--;
	if (client->connections == 0)
		forget_gone(limited_export(export));
}

void
export_free_clients(struct export *export)
{
	while (export->clients)
		forget(&export->clients);
}

/* ---- changes of their limits */

int
export_limit_clients(struct export *export, const struct limits *limits, uint64_t now)
{
	int r = 0;

	for (struct export_client *client = export->clients; client && r == 0;
	     client = client->next)
		r = limiter_new(&client->former, limits, now);
	for (struct export_client *client = export->clients; client; client = client->next) {
		struct limiter *limiter = client->former;

		if (r < 0) {
			limiter_release(limiter);
			client->former = NULL;
			continue;
		}
		client->former = client->limiter;
		client->limiter = limiter;
		client->changes = true;
	}
	return r;
}

void
export_end_limiting(struct export *export, bool kept)
{
	for (struct export_client *client = export->clients; client; client = client->next) {
		struct limiter *limiter = client->limiter;

		/* One that has joined meanwhile keeps the limiter that its connection has. */
		if (client->changes && !kept) {
			client->limiter = client->former;
			client->former = limiter;
		}
		limiter_release(client->former);
		client->former = NULL;
		client->changes = false;
	}
}
