/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/source/source_remote.h"

#include "tool/link/peer.h"

#include "common/log.h"
#include "nbd/protocol.h"

/* How long a server that still seems to have connections may take to give another one. */
#define PART_LIMIT_MS 3000

void
source_remote_use(struct source *source, const char *uri)
{
	for (guint i = 0; uri && i < source->servers->len; i++) {
		if (g_str_equal(source->servers->pdata[i], uri))
			source->in_use = i;
	}
}

/* The servers in the order in which they are tried: the one in use; with `all`, then the others,
 * as preferred.  The URIs are borrowed; caller frees the array. */
static GPtrArray *
servers_to_try(const struct source *source, bool all)
{
	GPtrArray *uris = g_ptr_array_new();

	g_ptr_array_add(uris, source->servers->pdata[source->in_use]);
	for (guint i = 0; all && i < source->servers->len; i++) {
		if (i != source->in_use)
			g_ptr_array_add(uris, source->servers->pdata[i]);
	}
	return uris;
}

/* Makes those that are lacking, with the server in use or with any. */
static bool
connect_lacking(struct source *source, bool any, unsigned int limit_ms, GError **error)
{
	unsigned int count, found = 0;
	g_autofree struct source_connection **connections = source_lacking(source, &count);
	g_autoptr(GPtrArray) uris = servers_to_try(source, any);
	const struct source_search search = {
		.uri = source->place,
		.uris = uris,
		.tls = &source->plan->tls,
		.device = source->device.size > 0 ? &source->device : NULL,
	};

	if (!source_connections_to_servers(connections, count, source->plan->connections > 1,
					   &search, limit_ms, &found, error))
		return false;
	source_remote_use(source, uris->pdata[found]);
	/* The silence of a server whose only request is a flush is not in the device's figures. */
	for (unsigned int i = 0; source->plan->silence > 0 && i < count; i++)
		peer_watch(connections[i]->fd, 2 * source->plan->silence);
	return !source->plan->tls.proxy ||
	       proxies_start(&source->proxies, connections, count, uris->pdata[found], error);
}

/* A write that waits on such a connection could still be carried out there. */
static void
leave_server(struct source *source)
{
	const char *uri = source->servers->pdata[source->in_use];
	g_autofree char *name = nbd_uri_server_name(uri);

	/* The kernel ends those that are unseen when a request on them gets no answer. */
	if (source_unseen(source) > 0)
		return;
	log_warning("%s gives no new connection: the others to it are ended, too", name);
	source_end_connections(source);
}

bool
source_remote_open(struct source *source, GError **error)
{
	const unsigned int planned = source->plan->connections;
	unsigned int lacking = 0;

	for (unsigned int i = 0; i < planned; i++)
		lacking += source_lacks(source, i);
	if (lacking == 0)
		return true;
	if (source->servers->len == 1 || lacking == planned) {
		if (!connect_lacking(source, true, SOURCE_LIMIT_MS, error))
			return false;
	} else if (!connect_lacking(source, false, PART_LIMIT_MS, error)) {
		leave_server(source);
		return false;
	}
	if (source->flags == 0)
		source->flags = source->connections[0].export.flags;
	/* A single connection doesn't need it, of no server. */
	if (planned == 1)
		source->flags &= (uint16_t)~NBD_FLAG_CAN_MULTI_CONN;
	return true;
}

bool
source_remote_is_lost(struct source *source, bool *crashed, char **why)
{
	g_autofree char *name = nbd_uri_server_name(source->servers->pdata[source->in_use]);
	unsigned int lost = 0;

	proxies_reap(&source->proxies);
	source_close_ended(source);
	for (unsigned int i = 0; i < source->plan->connections; i++)
		lost += source_lacks(source, i);
	*crashed = false;
	if (lost > 0 && source->plan->connections == 1)
		*why = g_strdup_printf("the connection to %s ended", name);
	else if (lost > 0)
		*why = g_strdup_printf("%u of %u connections to %s ended", lost,
				       source->plan->connections, name);
	return lost > 0;
}
