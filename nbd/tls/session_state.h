/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The content of a session.
 */
#ifndef NBD_TLS_SESSION_STATE_H
#define NBD_TLS_SESSION_STATE_H

#include "nbd/tls/credentials_state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nbd_output;
struct tls_input;

struct tls_session {
	gnutls_session_t tls;
	struct tls_credentials *credentials;
	char *server_name; /* of a client, or NULL */
	/* During a call; GnuTLS's functions for the transport use them. */
	struct tls_input *input;
	struct nbd_output *output;
	bool full;         /* the output had no room */
	size_t record;     /* bytes of the peer's present record that are still to come */
	size_t header;     /* bytes of its header that were taken */
	uint8_t length[2]; /* the last two of them */
	struct tls_lookup lookup;
	gnutls_typed_vdata_st verified[2]; /* what the peer's certificate must be for */
	char reason[288];
	char description[64];
};

#endif
