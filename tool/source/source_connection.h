/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections to an NBD server, negotiated so that the kernel can take them over: TCP or unix
 * sockets, and simple replies.  With TLS, the kernel has the keys, and encrypts, or a proxy is to
 * be put between (tool/source/proxies.h).  All connections of a device are negotiated at the same
 * time.
 */
#ifndef TOOL_SOURCE_SOURCE_CONNECTION_H
#define TOOL_SOURCE_SOURCE_CONNECTION_H

#include "tool/source/source_targets.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Limit for a running server that is waited for, in milliseconds.  A server that hangs, or vanishes
 * without closing the connection, would block the caller forever: nothing is in flight whose loss
 * TCP would notice. */
#define SOURCE_LIMIT_MS 30000

struct tls_session;

struct source_connection {
	int fd; /* ours; nothing was sent on it since the handshake */
	struct export_facts export;
	bool unseen;  /* see source_set_unseen(); fd is -1 */
	char tls[80]; /* "1.3 AES-128-GCM kernel" or "... proxy"; "": it is not encrypted */
	struct tls_session *session; /* for a proxy, which takes it; or NULL */
	uint64_t most_bytes; /* that may go in one direction with one key; 0: there is no limit */
};

/* What to do from time to time meanwhile. */
struct source_pastime {
	void (*look)(void *data);
	void *data;
};

/* Negotiates over `count` connected sockets, which it takes over in any case, with the export that
 * has no name.  Takes `limit_ms` at most; 0: waits as long as the server does.  `pastime` may be
 * NULL.  Makes all connections or none. */
bool
source_connections_over_sockets(struct source_connection *const *connections, const int *fds,
				unsigned int count, unsigned int limit_ms,
				const struct source_pastime *pastime, GError **error);

/*
 * Connects `count` times to one server of those that are looked for: to the first that answers,
 * when those before it have failed or been silent for a moment; with `several`, only if the server
 * allows more than one connection.  Takes `limit_ms` at most, and the name service's time.
 * *server: which one it is.  Errors are in the servers' own words where they have some.  Makes all
 * connections or none.
 */
bool
source_connections_to_servers(struct source_connection *const *connections, unsigned int count,
			      bool several, const struct source_search *search,
			      unsigned int limit_ms, unsigned int *server, GError **error);

/* How many bytes may still go over it with its key, in the direction that has more; UINT64_MAX: as
 * many as you like. */
uint64_t
source_connection_bytes_left(const struct source_connection *connection);

/* Closes it, if it is open, and wipes its session: .fd is -1 then. */
void
source_connection_close(struct source_connection *connection);

#endif
