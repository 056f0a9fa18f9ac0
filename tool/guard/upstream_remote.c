/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/upstream_remote.h"

#include "tool/link/peer.h"

#include "common/log.h"
#include "nbd/protocol.h"

/* How long a server that still seems to have connections may take to give another one. */
#define PART_LIMIT_MS 3000

void
upstream_remote_use(struct upstream *upstream, const char *uri)
{
	for (guint i = 0; uri && i < upstream->servers->len; i++) {
		if (g_str_equal(upstream->servers->pdata[i], uri))
			upstream->in_use = i;
	}
}

/* The servers in the order in which they are tried: the one in use; with `all`, then the others,
 * as preferred.  The URIs are borrowed; caller frees the array. */
static GPtrArray *
servers_to_try(const struct upstream *upstream, bool all)
{
	GPtrArray *uris = g_ptr_array_new();

	g_ptr_array_add(uris, upstream->servers->pdata[upstream->in_use]);
	for (guint i = 0; all && i < upstream->servers->len; i++) {
		if (i != upstream->in_use)
			g_ptr_array_add(uris, upstream->servers->pdata[i]);
	}
	return uris;
}

/* Makes those that are lacking, with the server in use or with any. */
static bool
connect_lacking(struct upstream *upstream, bool any, unsigned int limit_ms, GError **error)
{
	unsigned int count, found = 0;
	g_autofree struct upstream_connection **connections = upstream_lacking(upstream, &count);
	g_autoptr(GPtrArray) uris = servers_to_try(upstream, any);
	const struct upstream_search search = {
		.uri = upstream->place,
		.uris = uris,
		.tls = &upstream->plan->tls,
		.device = upstream->device.size > 0 ? &upstream->device : NULL,
	};

	if (!upstream_connections_to_servers(connections, count, upstream->plan->connections > 1,
					     &search, limit_ms, &found, error))
		return false;
	upstream_remote_use(upstream, uris->pdata[found]);
	/* The silence of a server whose only request is a flush is not in the device's figures. */
	for (unsigned int i = 0; upstream->plan->silence > 0 && i < count; i++)
		peer_watch(connections[i]->fd, 2 * upstream->plan->silence);
	return !upstream->plan->tls.proxy ||
	       proxies_start(&upstream->proxies, connections, count, uris->pdata[found], error);
}

/* A write that waits on such a connection could still be carried out there. */
static void
leave_server(struct upstream *upstream)
{
	const char *uri = upstream->servers->pdata[upstream->in_use];
	g_autofree char *name = nbd_uri_server_name(uri);

	/* The kernel ends those that are unseen when a request on them gets no answer. */
	if (upstream_unseen(upstream) > 0)
		return;
	log_warning("%s gives no new connection: the others to it are ended, too", name);
	upstream_end_connections(upstream);
}

bool
upstream_remote_open(struct upstream *upstream, GError **error)
{
	const unsigned int planned = upstream->plan->connections;
	unsigned int lacking = 0;

	for (unsigned int i = 0; i < planned; i++)
		lacking += upstream_lacks(upstream, i);
	if (lacking == 0)
		return true;
	if (upstream->servers->len == 1 || lacking == planned) {
		if (!connect_lacking(upstream, true, UPSTREAM_LIMIT_MS, error))
			return false;
	} else if (!connect_lacking(upstream, false, PART_LIMIT_MS, error)) {
		leave_server(upstream);
		return false;
	}
	if (upstream->flags == 0)
		upstream->flags = upstream->connections[0].export.flags;
	/* A single connection doesn't need it, of no server. */
	if (planned == 1)
		upstream->flags &= (uint16_t)~NBD_FLAG_CAN_MULTI_CONN;
	return true;
}

bool
upstream_remote_is_lost(struct upstream *upstream, bool *crashed, char **why)
{
	g_autofree char *name = nbd_uri_server_name(upstream->servers->pdata[upstream->in_use]);
	unsigned int lost = 0;

	proxies_reap(&upstream->proxies);
	upstream_close_ended(upstream);
	for (unsigned int i = 0; i < upstream->plan->connections; i++)
		lost += upstream_lacks(upstream, i);
	*crashed = false;
	if (lost > 0 && upstream->plan->connections == 1)
		*why = g_strdup_printf("the connection to %s ended", name);
	else if (lost > 0)
		*why = g_strdup_printf("%u of %u connections to %s ended", lost,
				       upstream->plan->connections, name);
	return lost > 0;
}
