/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection to an NBD server, negotiated so that the kernel can take it over: plain TCP or a
 * unix socket, and simple replies.
 */
#ifndef TOOL_SERVER_UPSTREAM_CONNECTION_H
#define TOOL_SERVER_UPSTREAM_CONNECTION_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct upstream_connection {
	int fd;                  /* ours; nothing was sent on it since the handshake */
	uint64_t size;           /* of the export, bytes */
	unsigned int block_size; /* the smallest block that the server wants, as a block device can
				    have it */
	uint16_t flags;          /* transmission flags, as the kernel wants them */
	bool unseen;             /* see upstream_set_unseen(); fd is -1 */
};

/* Negotiates over a connected socket, which it takes over in any case, with the export that has no
 * name. */
bool
upstream_connection_over_socket(struct upstream_connection *connection, int fd, GError **error);

/* Connects to the server of an NBD URI; errors are in the server's own words where it has some. */
bool
upstream_connection_to_uri(struct upstream_connection *connection, const char *uri, GError **error);

#endif
