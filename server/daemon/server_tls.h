/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's TLS: its certificates and keys, at the start and when they are read again.
 */
#ifndef SERVER_DAEMON_SERVER_TLS_H
#define SERVER_DAEMON_SERVER_TLS_H

#include "server/config/server_config.h"
#include "server/worker/worker.h"

#include <stdbool.h>
#include <time.h>

struct handshakes;
struct tls_credentials;

/* All zero: there is none. */
struct server_tls {
	const struct server_config *config;
	struct tls_credentials *credentials; /* until the threads have them; or NULL */
	struct handshakes *handshakes;       /* NULL: there is no TLS */
	bool verifies;                       /* clients need a certificate, or a key */
	bool revokes;                        /* some certificates are revoked */
	_Atomic time_t end;                  /* when a file of TLS expires next; 0: never */
};

/* What the configuration says of TLS, for connections. */
enum nbd_tls
server_tls_mode(const struct server_config *config);
enum kernel_tls
server_tls_kernel(const struct server_config *config);

/* Reads them as server_tls_read() does, and forgets them. */
int
server_tls_check(const struct server_config *config, char **error);

/* Reads the certificates and keys into .credentials, if the configuration wants TLS.  0, or -errno
 * with *error a sentence (caller frees). -CONFIG_MISTAKE: the user may not read one of them. */
int
server_tls_read(struct server_tls *tls, const struct server_config *config, char **error);

/* Starts the threads, and tells the log what clients need. 0 or -errno. */
int
server_tls_start(struct server_tls *tls);

/* Reads the files again, for new connections. Waits for them. Returns 1 if they are in use now, 0
 * if there is no TLS, or -1: they are of no use, as the log says, and TLS goes on with the old. */
int
server_tls_reread(struct server_tls *tls);

/* Logs what has expired of the files. Returns a time limit for poll(), in milliseconds, after which
 * to call it again; 0: none. */
int
server_tls_watch(struct server_tls *tls);

/* No worker may run any more. */
void
server_tls_free(struct server_tls *tls);

#endif
