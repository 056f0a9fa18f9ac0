/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/server/nbd_uri.h"

#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>

#define DEFAULT_PORT 10809

/* All but the host is left as it was written. */
#define AS_WRITTEN (G_URI_FLAGS_ENCODED | G_URI_FLAGS_HAS_PASSWORD)

bool
nbd_uri_is(const char *text)
{
	return text && g_str_has_prefix(text, "nbd") && g_strstr_len(text, 16, "://");
}

static struct addrinfo *
resolve(const GUri *uri, const char *host)
{
	const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
	int port = g_uri_get_port((GUri *)uri);
	g_autofree char *service = g_strdup_printf("%d", port > 0 ? port : DEFAULT_PORT);
	struct addrinfo *found = NULL;

	return getaddrinfo(host, service, &wanted, &found) == 0 ? found : NULL;
}

static char *
with_address(GUri *uri, const struct addrinfo *address)
{
	char host[NI_MAXHOST];

	if (getnameinfo(address->ai_addr, address->ai_addrlen, host, sizeof(host), NULL, 0,
			NI_NUMERICHOST) != 0)
		return NULL;
	return g_uri_join(AS_WRITTEN, g_uri_get_scheme(uri), g_uri_get_userinfo(uri), host,
			  g_uri_get_port(uri), g_uri_get_path(uri), g_uri_get_query(uri),
			  g_uri_get_fragment(uri));
}

char **
nbd_uri_addresses(const char *text)
{
	g_autoptr(GUri) uri = g_uri_parse(text, AS_WRITTEN, NULL);
	const char *host =
		uri && g_str_equal(g_uri_get_scheme(uri), "nbd") ? g_uri_get_host(uri) : NULL;
	struct addrinfo *all = host && *host ? resolve(uri, host) : NULL;
	g_autoptr(GPtrArray) uris = g_ptr_array_new_with_free_func(g_free);

	for (const struct addrinfo *at = all && all->ai_next ? all : NULL; at; at = at->ai_next) {
		char *one = with_address(uri, at);

		if (one)
			g_ptr_array_add(uris, one);
	}
	if (all)
		freeaddrinfo(all);
	if (uris->len == 0)
		g_ptr_array_add(uris, g_strdup(text));
	g_ptr_array_add(uris, NULL);
	return (char **)g_ptr_array_steal(uris, NULL);
}
