/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/server/nbd_uri.h"

#include "tool/failure.h"

#include "nbd/protocol.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/un.h>

#define DEFAULT_PORT 10809

bool
nbd_uri_is(const char *text)
{
	return text && g_str_has_prefix(text, "nbd") && g_strstr_len(text, 16, "://");
}

/* ---- its servers */

/* The part of a URI of TCP that names the servers; *length may be 0.  NULL: it isn't one. */
static const char *
find_hosts(const char *text, size_t *length)
{
	const char *begin = g_str_has_prefix(text, "nbd://")    ? text + strlen("nbd://")
			    : g_str_has_prefix(text, "nbds://") ? text + strlen("nbds://")
								: NULL;
	const char *user;

	if (!begin)
		return NULL;
	*length = strcspn(begin, "/?#");
	user = g_strrstr_len(begin, (gssize)*length, "@");
	if (user) {
		*length -= (size_t)(user + 1 - begin);
		begin = user + 1;
	}
	return begin;
}

GPtrArray *
nbd_uri_servers(const char *text, GError **error)
{
	g_autoptr(GPtrArray) uris = g_ptr_array_new_with_free_func(g_free);
	size_t length = 0;
	const char *hosts = find_hosts(text, &length);
	g_autofree char *list = g_strndup(hosts ? hosts : "", length);
	g_auto(GStrv) names = g_strsplit(list, ",", -1);

	if (!hosts || !strchr(list, ',')) {
		g_ptr_array_add(uris, g_strdup(text));
		return g_steal_pointer(&uris);
	}
	for (char **name = names; *name; name++) {
		if (!**name)
			return FAILURE_NULL(error, EINVAL,
					    "%s: a server's name is missing beside a comma", text);
		g_ptr_array_add(uris, g_strdup_printf("%.*s%s%s", (int)(hosts - text), text, *name,
						      hosts + length));
	}
	return g_steal_pointer(&uris);
}

char *
nbd_uri_server_name(const char *text)
{
	struct nbd_uri uri;
	char *name;

	if (!nbd_uri_parse(text, &uri, NULL))
		name = g_strdup(text);
	else if (uri.socket)
		name = g_strdup(uri.socket);
	else
		name = g_strdup_printf(strchr(uri.host, ':') ? "[%s]:%u" : "%s:%u", uri.host,
				       uri.port);
	nbd_uri_fini(&uri);
	return name;
}

/* ---- its parts */

static bool
check_scheme(const char *scheme, GError **error)
{
	if (g_str_equal(scheme, "nbd") || g_str_equal(scheme, "nbds") ||
	    g_str_equal(scheme, "nbd+unix") || g_str_equal(scheme, "nbds+unix"))
		return true;
	if (g_str_equal(scheme, "nbd+vsock") || g_str_equal(scheme, "nbds+vsock"))
		return failure(error, EOPNOTSUPP,
			       "the kernel's nbd driver takes TCP and unix sockets only");
	return failure(error, EINVAL, "unknown NBD URI scheme: %s", scheme);
}

/* The parameters of the query; NULL: there are none. */
static GHashTable *
find_parameters(GUri *parsed)
{
	const char *query = g_uri_get_query(parsed);

	return query ? g_uri_parse_params(query, -1, "&;", G_URI_PARAMS_NONE, NULL) : NULL;
}

/* Of the parameters, which may be NULL.  Caller frees. */
static char *
find_parameter(GHashTable *parameters, const char *name)
{
	return parameters ? g_strdup(g_hash_table_lookup(parameters, name)) : NULL;
}

/* A parameter about TLS that is ignored could be one that forbids something. */
static bool
check_tls_parameters(GHashTable *parameters, GError **error)
{
	static const char *const known[] = {"tls-certificates", "tls-psk-file", "tls-hostname",
					    NULL};
	GHashTableIter at;
	gpointer name;

	if (!parameters)
		return true;
	g_hash_table_iter_init(&at, parameters);
	while (g_hash_table_iter_next(&at, &name, NULL)) {
		if (g_str_has_prefix(name, "tls-") && !g_strv_contains(known, name))
			return failure(error, EINVAL,
				       "unknown parameter %s: nbdloop attach --help lists the "
				       "options for TLS",
				       (const char *)name);
	}
	return true;
}

/* The guard, which connects again, has another current directory. */
static bool
check_absolute(const char *name, const char *path, GError **error)
{
	return !path || *path == '/' ||
	       failure(error, EINVAL, "%s must be an absolute path: %s", name, path);
}

static bool
take_tls(struct nbd_uri *uri, GUri *parsed, GHashTable *parameters, GError **error)
{
	const char *user = g_uri_get_user(parsed);

	uri->tls = g_str_has_prefix(g_uri_get_scheme(parsed), "nbds");
	if (!uri->tls)
		return true;
	if (g_uri_get_password(parsed))
		return failure(
			error, EINVAL,
			"the URI has a password: others can read it, and NBD has none.  A user's "
			"key is in a file (--tls-psk)");
	uri->user = user && *user ? g_strdup(user) : NULL;
	uri->certificates = find_parameter(parameters, "tls-certificates");
	uri->psk = find_parameter(parameters, "tls-psk-file");
	uri->hostname = find_parameter(parameters, "tls-hostname");
	return check_tls_parameters(parameters, error) &&
	       check_absolute("tls-certificates", uri->certificates, error) &&
	       check_absolute("tls-psk-file", uri->psk, error);
}

static bool
take_server(struct nbd_uri *uri, GUri *parsed, GHashTable *parameters, GError **error)
{
	const char *host = g_uri_get_host(parsed);

	uri->port = (unsigned int)MAX(g_uri_get_port(parsed), 0);
	uri->port = uri->port ? uri->port : DEFAULT_PORT;
	if (!g_str_has_suffix(g_uri_get_scheme(parsed), "+unix")) {
		uri->host = g_strdup(host && *host ? host : "localhost");
		return true;
	}
	uri->socket = find_parameter(parameters, "socket");
	if (!uri->socket || !*uri->socket)
		return failure(error, EINVAL,
			       "the path of the socket is missing: %s:///EXPORT?socket=PATH",
			       g_uri_get_scheme(parsed));
	/* The guard, which connects again, has another current directory. */
	if (*uri->socket != '/')
		return failure(error, EINVAL, "the path of the socket must be absolute: %s",
			       uri->socket);
	return strlen(uri->socket) < sizeof(((struct sockaddr_un *)NULL)->sun_path) ||
	       failure(error, ENAMETOOLONG, "the path of the socket is too long");
}

static bool
take_export(struct nbd_uri *uri, GUri *parsed, GError **error)
{
	const char *path = g_uri_get_path(parsed);

	uri->export = g_strdup(*path == '/' ? path + 1 : path);
	return strlen(uri->export) <= NBD_STRING_MAX ||
	       failure(error, ENAMETOOLONG, "the export's name is too long");
}

bool
nbd_uri_parse(const char *text, struct nbd_uri *uri, GError **error)
{
	g_autoptr(GError) why = NULL;
	/* The query is split before it is decoded. */
	g_autoptr(GUri) parsed =
		g_uri_parse(text, G_URI_FLAGS_HAS_PASSWORD | G_URI_FLAGS_ENCODED_QUERY, &why);

	g_autoptr(GHashTable) parameters = parsed ? find_parameters(parsed) : NULL;

	*uri = (struct nbd_uri){.port = 0};
	if (!parsed)
		return failure(error, EINVAL, "%s: %s", text, why->message);
	if (check_scheme(g_uri_get_scheme(parsed), &why) && take_export(uri, parsed, &why) &&
	    take_server(uri, parsed, parameters, &why) && take_tls(uri, parsed, parameters, &why))
		return true;
	return failure(error, why->code, "%s: %s", text, why->message);
}

void
nbd_uri_fini(struct nbd_uri *uri)
{
	g_free(uri->export);
	g_free(uri->host);
	g_free(uri->socket);
	g_free(uri->user);
	g_free(uri->certificates);
	g_free(uri->psk);
	g_free(uri->hostname);
}

/* ---- its addresses */

static void
add_unix(GArray *addresses, const char *path)
{
	struct nbd_address one = {.length = sizeof(struct sockaddr_un)};
	struct sockaddr_un *address = (struct sockaddr_un *)&one.address;

	address->sun_family = AF_UNIX;
	g_strlcpy(address->sun_path, path, sizeof(address->sun_path));
	g_array_append_val(addresses, one);
}

static bool
add_resolved(GArray *addresses, const struct nbd_uri *uri, GError **error)
{
	/* Without AI_ADDRCONFIG, with which a machine that has no IPv6 address but the loopback's
	 * can't name that one: ::1. */
	const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
	g_autofree char *service = g_strdup_printf("%u", uri->port);
	struct addrinfo *found;
	int r = getaddrinfo(uri->host, service, &wanted, &found);

	if (r != 0)
		return failure(error, EHOSTUNREACH, "%s: %s", uri->host, gai_strerror(r));
	for (const struct addrinfo *at = found; at; at = at->ai_next) {
		struct nbd_address one = {.length = at->ai_addrlen};

		memcpy(&one.address, at->ai_addr, at->ai_addrlen);
		g_array_append_val(addresses, one);
	}
	freeaddrinfo(found);
	return true;
}

GArray *
nbd_uri_addresses(const struct nbd_uri *uri, GError **error)
{
	g_autoptr(GArray) addresses = g_array_new(false, false, sizeof(struct nbd_address));

	if (uri->socket)
		add_unix(addresses, uri->socket);
	else if (!add_resolved(addresses, uri, error))
		return NULL;
	return g_steal_pointer(&addresses);
}
