/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/source/source_targets.h"

#include "tool/failure.h"

#include <errno.h>
#include <string.h>

/* The addresses of one name lead to the same server: it does no harm to try two of them at once,
 * and one may be of a protocol that leads nowhere (RFC 8305, 5). */
#define NEXT_ADDRESS_MS 250

/* Another server isn't as good as the one that is preferred, which may only be slow. */
#define NEXT_SERVER_MS 3000

void
source_server_add_reason(const struct source_server *server, GString *reasons, const char *reason)
{
	g_autofree char *text = g_strconcat(server->name ? server->name : "",
					    server->name ? ": " : "", reason, NULL);
	const char *same = strstr(reasons->str, text);

	/* Several addresses of a server often give the same one. */
	if (!same || (same[strlen(text)] != '\0' && same[strlen(text)] != ';'))
		g_string_append_printf(reasons, "%s%s", reasons->len ? "; " : "", text);
}

static void
add_addresses(struct source_targets *targets, unsigned int index)
{
	const struct source_server *server = &targets->servers[index];
	g_autoptr(GError) why = NULL;
	g_autoptr(GArray) addresses = nbd_uri_addresses(&server->uri, &why);

	if (!addresses)
		source_server_add_reason(server, targets->unknown, why->message);
	for (guint i = 0; addresses && i < addresses->len; i++) {
		const struct source_target one = {
			.address = g_array_index(addresses, struct nbd_address, i),
			.server = index,
		};

		g_array_append_val(targets->all, one);
	}
}

static bool
parse_all(struct source_targets *targets, const struct source_search *search, GError **error)
{
	while (targets->count < search->uris->len) {
		struct source_server *server = &targets->servers[targets->count];
		const char *uri = search->uris->pdata[targets->count++];

		if (!nbd_uri_parse(uri, &server->uri, error))
			return false;
		server->name = search->uris->len > 1 ? nbd_uri_server_name(uri) : NULL;
	}
	return true;
}

static bool
find_addresses(struct source_targets *targets, const struct source_search *search, GError **error)
{
	if (search->tls->wanted)
		targets->credentials = source_tls_credentials(search->tls, error);
	if (search->tls->wanted && !targets->credentials)
		return false;
	for (unsigned int i = 0; i < targets->count; i++) {
		struct source_server *server = &targets->servers[i];
		const char *host = server->uri.host ? server->uri.host : "localhost";

		server->device = i > 0 ? search->device : NULL;
		server->aim = (struct negotiation_aim){
			.export = server->uri.export,
			.credentials = targets->credentials,
			.hostname = search->tls->hostname ? search->tls->hostname : host,
			.proxy = search->tls->proxy,
		};
		add_addresses(targets, i);
	}
	return targets->all->len > 0 || failure(error, EHOSTUNREACH, "%s", targets->unknown->str);
}

bool
source_targets_find(struct source_targets *targets, const struct source_search *search,
		    GError **error)
{
	GError *why = NULL;

	*targets = (struct source_targets){
		.servers = g_new0(struct source_server, search->uris->len),
		.all = g_array_new(false, false, sizeof(struct source_target)),
		.unknown = g_string_new(NULL),
	};
	if (!parse_all(targets, search, error))
		return false;
	if (find_addresses(targets, search, &why))
		return true;
	g_propagate_prefixed_error(error, why, "%s: ", search->uri);
	return false;
}

void
source_targets_fini(struct source_targets *targets)
{
	for (unsigned int i = 0; i < targets->count; i++) {
		nbd_uri_fini(&targets->servers[i].uri);
		g_free(targets->servers[i].name);
	}
	g_free(targets->servers);
	g_array_unref(targets->all);
	g_string_free(targets->unknown, true);
	tls_credentials_unref(targets->credentials);
}

/* However many there are, all have been begun when half of the time is over. */
unsigned int
source_targets_head_start(const struct source_targets *targets, unsigned int index,
			  unsigned int limit_ms)
{
	const struct source_target *all = (const struct source_target *)targets->all->data;
	const bool same =
		index + 1 < targets->all->len && all[index].server == all[index + 1].server;

	return MIN(same ? NEXT_ADDRESS_MS : NEXT_SERVER_MS, limit_ms / 2 / targets->all->len);
}
