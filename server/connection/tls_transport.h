/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS as a connection's transport: decrypts what is received to where the connection wants it, and
 * encrypts what it sends. The first messages, the handshake, go through other threads
 * (handshakes.h). Where the kernel can take over (nbd/tls/ktls.h), it does, and the transport is
 * plain again.
 *
 *     handshake   receive -> step on another thread -> send, again and again; then secured()
 *     data        receive() takes what is decrypted, or receives more; send() encrypts
 *     kernel      as soon as nothing is under way; struct tls_transport is gone
 */
#ifndef SERVER_CONNECTION_TLS_TRANSPORT_H
#define SERVER_CONNECTION_TLS_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>

struct conn;
struct tls_transport;
struct worker;

/* Bytes of memory that a connection with TLS takes, besides its own. */
size_t
tls_transport_memory(void);

/* Begins TLS on a connection, which has sent its agreement; secured() is called after the
 * handshake. 0 or -ENOMEM. */
int
tls_transport_begin(struct conn *conn, void (*secured)(struct conn *conn));

/* Frees it, wiping keys and data. NULL is fine. */
void
tls_transport_free(struct tls_transport *tls);

/* Frees what the worker keeps for connections with TLS, of which there are none any more. */
void
tls_transport_free_outputs(struct worker *worker);

/* Returns whether another thread still uses the connection's TLS. If the connection is lost, that
 * thread is told to be quick. */
bool
tls_transport_is_working(struct conn *conn);

/* Returns whether the handshake is not over. */
bool
tls_transport_shakes(const struct tls_transport *tls);

/* Returns whether bytes have come that are not decrypted. */
bool
tls_transport_has_input(const struct tls_transport *tls);

/* Ends a connection whose keys the kernel has used as long as they may be: see ktls_record_limit().
 * Its client's requests so far are carried out. */
void
tls_transport_check_keys(struct conn *conn);

#endif
