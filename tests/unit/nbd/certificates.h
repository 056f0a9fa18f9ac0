/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Certificates for tests, made by a CA of their own in a few milliseconds, in directories with the
 * names of files that TLS credentials have.  Failures abort.
 */
#ifndef TESTS_UNIT_NBD_CERTIFICATES_H
#define TESTS_UNIT_NBD_CERTIFICATES_H

#include "nbd/tls/files.h"

#include <gnutls/x509.h>
#include <stdbool.h>

struct authority {
	gnutls_x509_privkey_t key;
	gnutls_x509_crt_t certificate;
	unsigned int issued; /* certificates, which are numbered from 1 */
	const char *second;  /* a further common name of those that it issues; NULL: none */
};

void
authority_init(struct authority *authority);

/* The same, with a name of its own, valid from so many days from now to so many. */
void
authority_init_named(struct authority *authority, const char *name, int from, int until);

void
authority_fini(struct authority *authority);

/* Writes its certificate to ca-cert.pem of the directory. */
void
authority_write(const struct authority *authority, const char *directory);

/* Writes a certificate and its key to the directory, for a side of this (common and DNS) name,
 * valid from so many days from now to so many. */
void
authority_issue(struct authority *authority, const char *directory, enum tls_side side,
		const char *name, int from, int until);

/* Writes ca-crl.pem, which revokes the certificate of this number, and is valid from so many days
 * from now to so many; `until` 0: for ever. */
void
authority_revoke(const struct authority *authority, const char *directory, unsigned int number,
		 int from, int until);

/* Writes a key with a password, in PKCS #8 or in the form that OpenSSL had before. */
void
certificates_write_secret_key(const char *directory, const char *name, bool old);

/* Writes a text to a file of the directory. */
void
certificates_write(const char *directory, const char *file, const void *text, size_t length);

#endif
