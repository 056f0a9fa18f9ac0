/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/source/export_source.h"

#include "tool/link/peer.h"
#include "tool/source/other_servers.h"

#include "common/log.h"
#include "nbd/protocol.h"

/* How long a server that still seems to have connections may take to give another one. */
#define PART_LIMIT_MS 3000

/* The server with that URI is in use; NULL, or none that the plan names: the first. */
static void
export_source_use(struct source *source, const char *uri)
{
	struct export_source *export = source->state;

	for (guint i = 0; uri && i < export->servers->len; i++) {
		if (g_str_equal(export->servers->pdata[i], uri))
			export->in_use = i;
	}
}

/* The servers in the order in which they are tried: the one in use; with `all`, then the others,
 * as preferred.  The URIs are borrowed; caller frees the array. */
static GPtrArray *
export_source_servers_to_try(const struct source *source, bool all)
{
	const struct export_source *export = source->state;
	GPtrArray *uris = g_ptr_array_new();

	g_ptr_array_add(uris, export->servers->pdata[export->in_use]);
	for (guint i = 0; all && i < export->servers->len; i++) {
		if (i != export->in_use)
			g_ptr_array_add(uris, export->servers->pdata[i]);
	}
	return uris;
}

/* Makes those that are lacking, with the server in use or with any. */
static bool
export_source_connect(struct source *source, bool any, unsigned int limit_ms, GError **error)
{
	struct export_source *export = source->state;
	unsigned int count, found = 0;
	g_autofree struct source_connection **connections = source_lacking(source, &count);
	g_autoptr(GPtrArray) uris = export_source_servers_to_try(source, any);
	const struct source_search search = {
		.uri = source->place,
		.uris = uris,
		.tls = &source->plan->tls,
		.device = export->device.size > 0 ? &export->device : NULL,
	};

	if (!source_connections_to_servers(connections, count, source->plan->connections > 1,
					   &search, limit_ms, &found, error))
		return false;
	export_source_use(source, uris->pdata[found]);
	/* The silence of a server whose only request is a flush is not in the device's figures. */
	for (unsigned int i = 0; source->plan->silence > 0 && i < count; i++)
		peer_watch(connections[i]->fd, 2 * source->plan->silence);
	return !source->plan->tls.proxy ||
	       proxies_start(&export->proxies, connections, count, uris->pdata[found], error);
}

/* A write that waits on such a connection could still be carried out there. */
static void
export_source_leave_server(struct source *source)
{
	struct export_source *export = source->state;
	const char *uri = export->servers->pdata[export->in_use];
	g_autofree char *name = nbd_uri_server_name(uri);

	/* The kernel ends those that are unseen when a request on them gets no answer. */
	if (source_unseen(source) > 0)
		return;
	log_warning("%s accepts no new connection: the others to it are closed, too", name);
	source_end_connections(source);
}

static bool
export_source_open(struct source *source, GError **error)
{
	struct export_source *export = source->state;
	const unsigned int planned = source->plan->connections;
	unsigned int lacking = 0;

	for (unsigned int i = 0; i < planned; i++)
		lacking += source_lacks(source, i);
	if (lacking == 0)
		return true;
	if (export->servers->len == 1 || lacking == planned) {
		if (!export_source_connect(source, true, SOURCE_LIMIT_MS, error))
			return false;
	} else if (!export_source_connect(source, false, PART_LIMIT_MS, error)) {
		export_source_leave_server(source);
		return false;
	}
	if (export->flags == 0)
		export->flags = source->connections[0].export.flags;
	/* A single connection doesn't need it, of no server. */
	if (planned == 1)
		export->flags &= (uint16_t)~NBD_FLAG_CAN_MULTI_CONN;
	return true;
}

static bool
export_source_is_lost(struct source *source, bool *crashed, char **why)
{
	struct export_source *export = source->state;
	g_autofree char *name = nbd_uri_server_name(export->servers->pdata[export->in_use]);
	unsigned int lost = 0;

	proxies_reap(&export->proxies);
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

static void
export_source_init(struct source *source)
{
	struct export_source *export = g_new0(struct export_source, 1);

	export->servers = nbd_uri_servers(source->plan->place, NULL);
	source->state = export;
}

static void
export_source_fini(struct source *source)
{
	struct export_source *export = source->state;

	g_clear_pointer(&export->servers, g_ptr_array_unref);
	g_free(export);
}

static bool
export_source_runs(const struct source *source)
{
	(void)source;
	return true;
}

static void
export_source_end(struct source *source)
{
	struct export_source *export = source->state;

	proxies_end(&export->proxies);
}

static void
export_source_note_facts(const struct source *source, struct source_facts *facts)
{
	const struct export_source *export = source->state;

	facts->server = export->servers->pdata[export->in_use];
	facts->flags = export->flags;
}

static void
export_source_take_facts(struct source *source, const struct source_facts *facts)
{
	struct export_source *export = source->state;

	export->flags = facts->flags;
	export_source_use(source, facts->server);
}

static void
export_source_note_device(struct source *source, const struct device *device)
{
	struct export_source *export = source->state;

	export->device = (struct export_facts){
		.size = device->size,
		.block_size = device->block_size,
		.flags = (uint16_t)(export->flags | (device->read_only ? NBD_FLAG_READ_ONLY : 0)),
	};
}

const struct source_kind export_source_kind = {
	.noun = "connection",
	.volatile_facts = true,
	.init = export_source_init,
	.fini = export_source_fini,
	.open = export_source_open,
	.is_lost = export_source_is_lost,
	.runs = export_source_runs,
	.end = export_source_end,
	.note_facts = export_source_note_facts,
	.take_facts = export_source_take_facts,
	.note_device = export_source_note_device,
	.look_at_others = other_servers_look,
};
