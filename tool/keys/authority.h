/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A certificate authority (CA): its own certificate and key, and those that it issues, as PEM.
 */
#ifndef TOOL_KEYS_AUTHORITY_H
#define TOOL_KEYS_AUTHORITY_H

#include "nbd/tls/gnutls_library.h"

#include <glib.h>
#include <stdbool.h>
#include <time.h>

struct authority {
	gnutls_x509_crt_t certificate;
	gnutls_x509_privkey_t key;
};

/* A certificate with its private key. */
struct certificate_pem {
	char *certificate;
	char *key; /* a secret: see secret_free() */
};

/* Makes one, valid for ten years, and its PEM.  authority_fini() frees it, after an error, too. */
bool
authority_make(struct authority *authority, struct certificate_pem *pem, GError **error);

/* Takes one from the text of its two files, whose paths are for errors. */
bool
authority_load(struct authority *authority, const char *certificate_path, const char *key_path,
	       GError **error);

/*
 * Issues a certificate for a server with these names and addresses (end with NULL), or for a
 * client of this name.  `days`: how long it is valid; 0: as long as the authority's.
 */
bool
authority_issue_server(const struct authority *authority, char *const *names, unsigned int days,
		       struct certificate_pem *pem, GError **error);
bool
authority_issue_client(const struct authority *authority, const char *name, unsigned int days,
		       struct certificate_pem *pem, GError **error);

/* The authority's own certificate, without its key.  Caller frees; NULL: *error is set. */
char *
authority_certificate(const struct authority *authority, GError **error);

void
authority_fini(struct authority *authority);

#endif
