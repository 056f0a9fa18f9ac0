/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/exports/export_clients.h"

#include "server/config/server_config.h"
#include "server/limit/limiter.h"

#include "common/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Most clients that are gone and have not rested yet: the oldest is forgotten then. */
#define GONE_MAX 1024

struct export *
limited_export(struct export *export)
{
	return export->origin ? export->origin : export;
}

bool
export_is_full(struct export *export)
{
	unsigned int most = limited_export(export)->limits[LIMIT_EXPORT].connections;

	return most && export->connections >= most;
}

const struct limits *
export_limits(struct export *export)
{
	return limited_export(export)->limits;
}

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
client_forget(struct export_client **at)
{
	struct export_client *client = *at;

	*at = client->next;
	client_free(client);
}

/* Forgets the clients that are gone and have rested; and, of too many, the oldest one. */
static void
clients_forget_gone(struct export *export)
{
	uint64_t now = clock_ns(CLOCK_BOOTTIME);
	struct export_client **oldest = NULL;
	unsigned int gone = 0;

	for (struct export_client **at = &export->clients; *at;) {
		if ((*at)->connections == 0 && limiter_is_rested((*at)->limiter, now)) {
			client_forget(at);
			continue;
		}
		if ((*at)->connections == 0) {
			gone++;
			oldest = at;
		}
		at = &(*at)->next;
	}
	if (gone > GONE_MAX)
		client_forget(oldest);
}

int
export_join(struct export *export, const char *rule, struct export_client **joined)
{
	struct export *limited = limited_export(export);
	const struct limits *limits = &limited->limits[LIMIT_CLIENT];
	struct export_client *client;

	clients_forget_gone(limited);
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
		clients_forget_gone(limited_export(export));
}

int
export_begin_limits(struct export *export)
{
	memcpy(export->limits, export->config->limits, sizeof(export->limits));
	return limiter_new(&export->limiter, &export->limits[LIMIT_EXPORT], 0);
}

void
export_end_limits(struct export *export)
{
	while (export->clients)
		client_forget(&export->clients);
	limiter_release(export->limiter);
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
