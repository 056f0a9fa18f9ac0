/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/link/nbd_uri.h"

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

/* ---- what a URI may have */

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

static bool
is_encrypted(GUri *parsed)
{
	return g_str_has_prefix(g_uri_get_scheme(parsed), "nbds");
}

static bool
is_unix(GUri *parsed)
{
	return g_str_has_suffix(g_uri_get_scheme(parsed), "+unix");
}

/* The scheme that has TLS, or, without `tls`, the one of unix sockets. */
static char *
other_scheme(GUri *parsed, bool tls)
{
	const char *plus = strchr(g_uri_get_scheme(parsed), '+');

	return g_strconcat(tls || is_encrypted(parsed) ? "nbds" : "nbd", tls ? plus : "+unix",
			   NULL);
}

static bool
refuse_in_clear(GUri *parsed, const char *what, GError **error)
{
	g_autofree char *scheme = other_scheme(parsed, true);

	return failure(error, EINVAL, "%s is for TLS, and %s:// is not encrypted: use %s://", what,
		       g_uri_get_scheme(parsed), scheme);
}

static bool
check_parameter(GUri *parsed, const char *name, const char *value, GError **error)
{
	static const char *const of_tls[] = {"tls-certificates", "tls-psk-file", "tls-hostname",
					     NULL};

	if (g_strv_contains(of_tls, name)) {
		if (!is_encrypted(parsed))
			return refuse_in_clear(parsed, name, error);
		return *value || failure(error, EINVAL, "the parameter %s is empty", name);
	}
	if (!g_str_equal(name, "socket"))
		return failure(error, EINVAL,
			       "unknown parameter %s: a URI has socket, tls-certificates, "
			       "tls-psk-file and tls-hostname; the rest is for options",
			       name);
	if (!is_unix(parsed)) {
		g_autofree char *scheme = other_scheme(parsed, false);

		return failure(error, EINVAL,
			       "socket is for unix sockets: %s:///EXPORT?socket=PATH", scheme);
	}
	return true;
}

/* The parameters of the query, by their names; NULL: *error is set. */
static GHashTable *
find_parameters(GUri *parsed, GError **error)
{
	g_autoptr(GHashTable) all = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
	const char *query = g_uri_get_query(parsed);
	g_autofree char *name = NULL, *value = NULL;
	g_autoptr(GError) why = NULL;
	GUriParamsIter at;

	if (!query)
		return g_steal_pointer(&all);
	g_uri_params_iter_init(&at, query, -1, "&;", G_URI_PARAMS_NONE);
	while (g_uri_params_iter_next(&at, &name, &value, &why)) {
		if (!check_parameter(parsed, name, value, error))
			return NULL;
		if (g_hash_table_contains(all, name))
			return FAILURE_NULL(error, EINVAL, "the parameter %s is there twice", name);
		g_hash_table_insert(all, g_steal_pointer(&name), g_steal_pointer(&value));
	}
	if (why || g_hash_table_size(all) == 0)
		return FAILURE_NULL(error, EINVAL, "the parameters after ? can't be read%s%s",
				    why ? ": " : "", why ? why->message : "");
	return g_steal_pointer(&all);
}

/* What stands before the path, where it would be ignored. */
static bool
check_authority(GUri *parsed, GError **error)
{
	const char *user = g_uri_get_user(parsed), *host = g_uri_get_host(parsed);

	if (g_uri_get_password(parsed))
		return failure(
			error, EINVAL,
			"the URI has a password: others can read it, and NBD has none.  A user's "
			"key is in a file (--tls-psk)");
	if (user && *user && !is_encrypted(parsed))
		return refuse_in_clear(parsed, "a user", error);
	if (is_unix(parsed) && host && *host)
		return failure(
			error, EINVAL,
			"\"%s\" would be a host, but a unix socket has none: write %s:///EXPORT?socket=PATH",
			host, g_uri_get_scheme(parsed));
	if (is_unix(parsed) && g_uri_get_port(parsed) >= 0)
		return failure(error, EINVAL, "a unix socket has no port");
	return !g_uri_get_fragment(parsed) ||
	       failure(error, EINVAL, "a # in an export's name is written %%23");
}

/* ---- its parts */

static bool
uri_take_server(struct nbd_uri *uri, GUri *parsed, GHashTable *parameters, GError **error)
{
	const char *host = g_uri_get_host(parsed);

	uri->port = (unsigned int)MAX(g_uri_get_port(parsed), 0);
	uri->port = uri->port ? uri->port : DEFAULT_PORT;
	if (!is_unix(parsed)) {
		uri->host = g_strdup(host && *host ? host : "localhost");
		return true;
	}
	uri->socket = g_strdup(g_hash_table_lookup(parameters, "socket"));
	if (!uri->socket || !*uri->socket)
		return failure(error, EINVAL,
			       "the path of the socket is missing: %s:///EXPORT?socket=PATH",
			       g_uri_get_scheme(parsed));
	return strlen(uri->socket) < sizeof(((struct sockaddr_un *)NULL)->sun_path) ||
	       failure(error, ENAMETOOLONG, "the path of the socket is too long");
}

/* The guard, which connects again, has another current directory. */
static bool
check_absolute(const char *name, const char *path, GError **error)
{
	return !path || *path == '/' ||
	       failure(error, EINVAL, "%s must be an absolute path: %s", name, path);
}

static GUri *
uri_split(const char *text, GError **error)
{
	/* The query is split before it is decoded. */
	return g_uri_parse(text, G_URI_FLAGS_HAS_PASSWORD | G_URI_FLAGS_ENCODED_QUERY, error);
}

static bool
uri_take_all(struct nbd_uri *uri, GUri *parsed, GError **error)
{
	g_autoptr(GHashTable) parameters = NULL;
	const char *path = g_uri_get_path(parsed), *user = g_uri_get_user(parsed);

	if (!check_authority(parsed, error))
		return false;
	parameters = find_parameters(parsed, error);
	if (!parameters)
		return false;
	uri->tls = is_encrypted(parsed);
	uri->user = user && *user ? g_strdup(user) : NULL;
	uri->certificates = g_strdup(g_hash_table_lookup(parameters, "tls-certificates"));
	uri->psk = g_strdup(g_hash_table_lookup(parameters, "tls-psk-file"));
	uri->hostname = g_strdup(g_hash_table_lookup(parameters, "tls-hostname"));
	uri->export = g_strdup(*path == '/' ? path + 1 : path);
	if (strlen(uri->export) > NBD_STRING_MAX)
		return failure(error, ENAMETOOLONG, "the export's name is too long");
	return uri_take_server(uri, parsed, parameters, error);
}

/* An IPv6 address with an interface as other programs write it: "[fe80::1%eth0]" (RFC 6874, section
 * 2). */
#define BARE_INTERFACE "\\[[0-9a-fA-F:.]+%(?!25)[^]]+\\]"

bool
nbd_uri_parse(const char *text, struct nbd_uri *uri, GError **error)
{
	g_autoptr(GError) why = NULL;
	g_autoptr(GUri) parsed = uri_split(text, &why);

	*uri = (struct nbd_uri){.port = 0};
	if (!parsed)
		return failure(error, EINVAL, "%s: %s%s", text, why->message,
			       g_regex_match_simple(BARE_INTERFACE, text, 0, 0)
				       ? ": the sign before an interface is written %25, as in "
					 "[fe80::1%25eth0]"
				       : "");
	if (check_scheme(g_uri_get_scheme(parsed), &why) && uri_take_all(uri, parsed, &why) &&
	    check_absolute("socket", uri->socket, &why) &&
	    check_absolute("tls-certificates", uri->certificates, &why) &&
	    check_absolute("tls-psk-file", uri->psk, &why))
		return true;
	return failure(error, why->code, "%s: %s", text, why->message);
}

static bool
check_for_libnbd(const struct nbd_uri *uri, bool knows_hostname, GError **error)
{
	if (uri->hostname && !knows_hostname)
		return failure(
			error, EOPNOTSUPP,
			"this libnbd has no tls-hostname: the host's name or address must be "
			"in the server's certificate");
	if (uri->certificates && uri->psk)
		return failure(error, EINVAL,
			       "tls-certificates is for certificates, and tls-psk-file for keys: "
			       "leave out one");
	return !uri->user || uri->psk ||
	       failure(error, EINVAL, "the user %s needs a key: ?tls-psk-file=FILE", uri->user);
}

bool
nbd_uri_check_for_libnbd(const char *text, bool knows_hostname, GError **error)
{
	g_autoptr(GError) why = NULL;
	g_autoptr(GUri) parsed = uri_split(text, &why);
	struct nbd_uri uri = {.port = 0};
	bool good;

	if (!parsed)
		return failure(error, EINVAL, "%s: %s", text, why->message);
	/* The parameters of SSH are libnbd's business, and so is a scheme that it doesn't know. */
	if (!check_scheme(g_uri_get_scheme(parsed), &why) && !failure_is(why, EOPNOTSUPP))
		return true;
	g_clear_error(&why);
	good = uri_take_all(&uri, parsed, &why) && check_for_libnbd(&uri, knows_hostname, &why);
	nbd_uri_fini(&uri);
	return good || failure(error, why->code, "%s: %s", text, why->message);
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

static bool
add_resolved(GArray *addresses, const struct nbd_uri *uri, GError **error)
{
	/* Without AI_ADDRCONFIG, with which a machine that has no IPv6 address but the loopback's
	 * can't name that one: ::1. */
	const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
	g_autofree char *service = g_strdup_printf("%u", uri->port);
	const struct sockaddr_in6 *six;
	struct addrinfo *found;
	int r = getaddrinfo(uri->host, service, &wanted, &found);

	if (r != 0)
		return failure(error, EHOSTUNREACH, "%s: %s", uri->host, gai_strerror(r));
	six = (const struct sockaddr_in6 *)found->ai_addr;
	if (found->ai_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr) &&
	    six->sin6_scope_id == 0) {
		freeaddrinfo(found);
		return failure(error, EINVAL,
			       "%s is an address of one network: name its interface, as in "
			       "nbd://[%s%%25eth0]/",
			       uri->host, uri->host);
	}
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
	struct nbd_address one = {.length = sizeof(struct sockaddr_un)};
	struct sockaddr_un *address = (struct sockaddr_un *)&one.address;

	if (!uri->socket)
		return add_resolved(addresses, uri, error) ? g_steal_pointer(&addresses) : NULL;
	address->sun_family = AF_UNIX;
	g_strlcpy(address->sun_path, uri->socket, sizeof(address->sun_path));
	g_array_append_val(addresses, one);
	return g_steal_pointer(&addresses);
}
