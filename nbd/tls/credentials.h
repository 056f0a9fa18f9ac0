/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The proofs of one side of TLS, and the means to check those of the other: X.509 certificates, or
 * keys that both sides have (PSK). Read from files once and const after that, so that sessions of
 * all threads share them; each holds a reference, and new files mean new credentials.
 */
#ifndef NBD_TLS_CREDENTIALS_H
#define NBD_TLS_CREDENTIALS_H

#include "nbd/tls/files.h"

#include <stdbool.h>
#include <time.h>

struct tls_credentials;

/* Reads them. Returns 0 and *credentials, of which the caller has a reference; or -errno with
 * *error a sentence that names the file, and never its content (caller frees). */
int
tls_credentials_load(const struct tls_files *files, struct tls_credentials **credentials,
		     char **error);

struct tls_credentials *
tls_credentials_ref(struct tls_credentials *credentials);

/* The last reference frees them and wipes the keys. NULL is fine. */
void
tls_credentials_unref(struct tls_credentials *credentials);

/* Returns whether a server asks its clients for a certificate, or a client checks the server's. */
bool
tls_credentials_verify(const struct tls_credentials *credentials);

/*
 * Logs what to beware of in the files, as a warning: a secret that others can read, or what has
 * expired or is not valid yet. `since` 0: all of it; else what has expired after that time, by
 * `now`. Returns when something expires next, to be called then with `now` as `since`; 0: nothing.
 */
time_t
tls_credentials_warn(const struct tls_credentials *credentials, time_t since, time_t now);

/* Returns whether there is a list of certificates that are revoked. */
bool
tls_credentials_revoke(const struct tls_credentials *credentials);

#endif
