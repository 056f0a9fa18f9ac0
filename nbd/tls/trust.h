/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The certificates of authorities by which those of the other side are verified, and the lists of
 * certificates that they have revoked.
 */
#ifndef NBD_TLS_TRUST_H
#define NBD_TLS_TRUST_H

#include "nbd/tls/credentials_state.h"

/* Loads both files into the credentials; each may be missing.  Returns 1: there are authorities; 0:
 * there are none; or -errno with *error. */
int
tls_trust_load(struct tls_credentials *credentials, const char *authorities, const char *lists,
	       char **error);

/* What GnuTLS says of a file, as an error; -ENOMEM has no text. */
int
tls_explain(char **error, const char *path, int code);

#endif
