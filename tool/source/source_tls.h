/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS on the connections to a remote server: what proves who this side is and checks the other.
 * The handshake is ours; after that, the kernel has the keys (nbd/tls/ktls.h), or a proxy
 * (tool/link/proxy.h).
 */
#ifndef TOOL_SOURCE_SOURCE_TLS_H
#define TOOL_SOURCE_SOURCE_TLS_H

#include "nbd/tls/credentials.h"

#include <glib.h>
#include <stdbool.h>

/* Paths are absolute.  The files are read for each new connection, so that those that were renewed
 * are used, and no secret is kept in memory. */
struct source_tls {
	bool wanted;
	bool proxy;         /* a process of ours encrypts, and not the kernel */
	bool verify;        /* check the server's certificate */
	char *certificates; /* a directory, or NULL */
	char *psk;          /* a file of keys, or NULL */
	char *user;         /* whose key it is; NULL: the first in the file */
	char *hostname;     /* that the server's certificate must have */
};

/* NULL with an error: a file can't be used, or the kernel has no TLS and should.  Caller frees
 * (tls_credentials_unref). */
struct tls_credentials *
source_tls_credentials(const struct source_tls *tls, GError **error);

/* Frees the strings. */
void
source_tls_fini(struct source_tls *tls);

#endif
