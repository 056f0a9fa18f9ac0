/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An NBD URI (doc/uri.md of github.com/NetworkBlockDevice/nbd): which export of which server.  Ours
 * may name several servers, "nbd://a,b:10810/x", and stands for one URI for each of them.
 */
#ifndef TOOL_LINK_NBD_URI_H
#define TOOL_LINK_NBD_URI_H

#include <glib.h>
#include <stdbool.h>
#include <sys/socket.h>

struct nbd_uri {
	char *export; /* its name; "": the default export */
	char *host;   /* NULL: a unix socket */
	char *socket; /* the path of that, which is absolute; or NULL */
	unsigned int port;
	/* With TLS, what the URI tells; each may be NULL. */
	bool tls;
	char *user;         /* of a pre-shared key */
	char *certificates; /* "tls-certificates", a directory */
	char *psk;          /* "tls-psk-file" */
	char *hostname;     /* "tls-hostname" */
};

/* Where a server listens. */
struct nbd_address {
	struct sockaddr_storage address;
	socklen_t length;
};

/* Whether a text, which may be NULL, is an NBD URI and not a path. */
bool
nbd_uri_is(const char *text);

/* The URIs of the servers that one URI names, in its order, which is that of preference: at least
 * one, char *.  EINVAL: a name is missing between two commas.  Caller frees (g_ptr_array_unref). */
GPtrArray *
nbd_uri_servers(const char *text, GError **error);

/* Which server the URI of one server names, for people: "two:10809", or the path of a socket.
 * Caller frees (g_free). */
char *
nbd_uri_server_name(const char *text);

/* Takes the URI of one server apart.  Refuses those that the kernel's driver can't have: other
 * sockets than TCP and unix; and whatever would be ignored, since it may be there to forbid
 * something.  Caller frees (nbd_uri_fini), also after an error. */
bool
nbd_uri_parse(const char *text, struct nbd_uri *uri, GError **error);

/* Refuses a URI of which libnbd, which takes it apart itself, would ignore something.
 * `knows_hostname`: whether it has the parameter tls-hostname. */
bool
nbd_uri_check_for_libnbd(const char *text, bool knows_hostname, GError **error);

void
nbd_uri_fini(struct nbd_uri *uri);

/* The server's addresses, struct nbd_address, in the system's order; never empty.  Waits for the
 * name service.  Caller frees (g_array_unref); NULL: *error is set. */
GArray *
nbd_uri_addresses(const struct nbd_uri *uri, GError **error);

#endif
