/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A TLS session, the server's side or the client's, as a state machine between two byte streams, as
 * nbd/handshake.h is: the peer's bytes go in, in pieces of any size, and bytes for it come out. It
 * uses no socket and never waits.
 *
 *	tls_session_new(&session, credentials, NULL);
 *	while ((result = tls_session_handshake(session, &input, &output)) == TLS_MORE)
 *		... send the output; receive bytes into the input ...
 *
 * Only one thread at a time may use a session, any thread.
 */
#ifndef NBD_TLS_SESSION_H
#define NBD_TLS_SESSION_H

#include "nbd/handshake_state.h"
#include "nbd/tls/credentials.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tls_session;

/* Most bytes of data in one record. */
#define TLS_RECORD_DATA ((size_t)16384)

/* Room that an output must have: for one record, and for messages that TLS itself sends with it. */
#define TLS_ROOM ((size_t)16384 + 1024)

/* Bytes of the peer's: the session takes them from the front. */
struct tls_input {
	const uint8_t *bytes;
	size_t length;
};

enum tls_result {
	TLS_DONE,   /* see the function */
	TLS_MORE,   /* all input was taken; send the output, then more is needed */
	TLS_FULL,   /* the output has no room: send it, then call again */
	TLS_CLOSED, /* the peer has closed its side of the session properly */
	TLS_FAILED, /* tls_session_reason() says why; send the output, an alert, and close */
};

/* The other side's identity, proven in the handshake. Texts hold no control characters. */
struct tls_identity {
	char *user;   /* of the key, or NULL: it used certificates */
	char *name;   /* the certificate's common name, or NULL: it showed no (verified) one */
	char *dn;     /* its distinguished name, "CN=a,O=b"; or NULL, too */
	char **names; /* its alternative names, each after its type (dns:, email:, uri: or ip:),
			 then NULL; or NULL: none */
};

/*
 * Makes a session, which takes a reference of the credentials. `server_name`: for a client, the
 * name or IP address that the server's certificate must have; NULL accepts any name that its CA
 * has signed. A server passes NULL. Returns 0 or -ENOMEM.
 */
int
tls_session_new(struct tls_session **session, struct tls_credentials *credentials,
		const char *server_name);

/* Wipes and frees it. The peer is told nothing. NULL is fine. */
void
tls_session_free(struct tls_session *session);

/* The handshake; a certificate's costs milliseconds of computation. Never returns TLS_CLOSED.
 * TLS_DONE: send the output; input that is left, and what comes, is for tls_session_read(). */
enum tls_result
tls_session_handshake(struct tls_session *session, struct tls_input *input,
		      struct nbd_output *output);

/* Decrypts into `to` as many as `size` bytes. TLS_DONE: *length, at least 1, bytes are there. */
enum tls_result
tls_session_read(struct tls_session *session, struct tls_input *input, void *to, size_t size,
		 size_t *length);

/* Encrypts as much of the data as the output has room for. TLS_DONE: *taken, at least 1, bytes were
 * encrypted. */
enum tls_result
tls_session_write(struct tls_session *session, const void *data, size_t length, size_t *taken,
		  struct nbd_output *output);

/* Tells the peer that no more data follows. */
void
tls_session_close(struct tls_session *session, struct nbd_output *output);

/* Returns whether decrypted data wait in the session, which tls_session_read() gives without input.
 */
bool
tls_session_has_data(const struct tls_session *session);

/* Returns whether the session stands between two records of the peer's: none was taken in part. */
bool
tls_session_at_record(const struct tls_session *session);

/* Returns whether the session began with these credentials. */
bool
tls_session_uses(const struct tls_session *session, const struct tls_credentials *credentials);

/* After TLS_FAILED: a sentence that tells what the peer did, or what it was refused for, such as
 * "the certificate has expired". */
const char *
tls_session_reason(const struct tls_session *session);

/* After the handshake, the version and the cipher: "1.3 AES-128-GCM". */
const char *
tls_session_describe(const struct tls_session *session);

/* After the handshake: who the other side is. Returns 0 or -errno; -EINVAL: its certificate has two
 * common names, and could pass as either. */
int
tls_session_identity(const struct tls_session *session, struct tls_identity *identity);

void
tls_identity_fini(struct tls_identity *identity);

#endif
