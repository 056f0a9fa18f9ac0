/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The content of credentials, for the sessions that use them.
 */
#ifndef NBD_TLS_CREDENTIALS_STATE_H
#define NBD_TLS_CREDENTIALS_STATE_H

#include "nbd/tls/cautions.h"
#include "nbd/tls/files.h"
#include "nbd/tls/gnutls_library.h"
#include "nbd/tls/psk_file.h"

#include <stdatomic.h>

struct tls_credentials {
	atomic_uint references;
	enum tls_side side;
	bool verify;                                   /* see tls_credentials_verify() */
	bool revoke;                                   /* see tls_credentials_revoke() */
	gnutls_certificate_credentials_t certificates; /* NULL: none */
	gnutls_psk_server_credentials_t psk_server;    /* NULL: none */
	gnutls_psk_client_credentials_t psk_client;    /* NULL: none */
	gnutls_priority_t priority;
	struct psk_file users;       /* the server's */
	char user[TLS_USER_MAX + 1]; /* the client's; "": none */
	struct tls_cautions cautions;
};

/* What the lookup of a PSK user needs, and tells: the pointer of a GnuTLS session. */
struct tls_lookup {
	const struct psk_file *users;
	/* The user that a client named and that is not in the file, without control characters;
	 * "": none. */
	char unknown[TLS_USER_MAX + 1];
};

#endif
