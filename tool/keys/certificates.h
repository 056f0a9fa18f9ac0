/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A certificate authority (CA) of one's own, and the certificates of a server and its clients, in a
 * directory with the file names of QEMU, nbdkit and nbdloopd:
 *
 *	DIRECTORY		ca-cert.pem, ca-key.pem, server-cert.pem, server-key.pem
 *	DIRECTORY/CLIENT	ca-cert.pem, client-cert.pem, client-key.pem,
 *				for the client's machine
 */
#ifndef TOOL_KEYS_CERTIFICATES_H
#define TOOL_KEYS_CERTIFICATES_H

#include <glib.h>
#include <stdbool.h>

struct certificates_wanted {
	const char *directory;
	char *const *servers; /* the names and addresses of the one server; end with NULL; NULL: it
				 gets no certificate */
	char *const *clients; /* their names, in the same form */
	unsigned int days;    /* that the certificates are valid; 0: as long as the CA's is */
	bool replace;         /* certificates that are there; never the CA's */
};

/* Makes them, and the CA and the directory where those are missing; all or nothing.  Prints the
 * paths of the files. */
bool
certificates_make(const struct certificates_wanted *wanted, GError **error);

#endif
