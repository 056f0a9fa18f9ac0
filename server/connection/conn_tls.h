/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS between a connection and its socket: decrypts what is received into the connection's input
 * or a request's buffer, and encrypts the replies.  The first messages, the handshake, go through
 * other threads (handshakes.h).  Where the kernel can take over (nbd/tls/ktls.h), it does, and the
 * connection goes on as one without TLS.
 */
#ifndef SERVER_CONNECTION_CONN_TLS_H
#define SERVER_CONNECTION_CONN_TLS_H

#include "server/connection/conn_state.h"
#include "server/connection/handshakes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* Most encrypted bytes in one receive: three full records. */
#define CONN_TLS_INPUT ((size_t)3 * (16384 + 256))

struct conn_tls {
	struct handshake_job job; /* has the session; .input: received, not decrypted yet; .output:
				     encrypted, to be sent, .bytes NULL: nothing */
	bool shaking;             /* the handshake is not over */
	bool working;             /* a step of it is under way on another thread */
	bool asked_kernel;        /* whether it takes over */
	bool short_receive;       /* the last receive got less than it could: nothing is unread */
	struct msghdr message;
	struct iovec part;
	uint8_t bytes[CONN_TLS_INPUT];
};

/* The next step after the socket has taken bytes, or after a step of the handshake. */
enum conn_tls_next {
	CONN_TLS_WAITS,    /* for more to be sent, for another thread, or for the end */
	CONN_TLS_RECEIVES, /* more input is needed */
	CONN_TLS_BEGUN,    /* the handshake is over */
	CONN_TLS_SENT,     /* conn->message is sent */
};

/* Bytes of memory that a connection with TLS takes, besides its own. */
size_t
conn_tls_memory(void);

/* Begins TLS on a connection, which has sent its agreement.  `deliver` is called on the worker's
 * thread after each step of the handshake, with the connection in message->data.  0 or -ENOMEM. */
int
conn_tls_begin(struct conn *conn,
	       void (*deliver)(struct worker *worker, struct worker_message *message));

/* Frees it, wiping keys and data.  NULL is fine. */
void
conn_tls_free(struct conn_tls *tls);

/* Frees what the worker keeps for connections with TLS, of which there are none any more. */
void
conn_tls_free_outputs(struct worker *worker);

/* Starts to receive encrypted bytes. */
void
conn_tls_receive(struct conn *conn);

/* So many encrypted bytes were received. */
void
conn_tls_received(struct conn *conn, size_t length);

/* Whether another thread still uses the connection's TLS.  If the connection is lost, that thread
 * is told to be quick. */
bool
conn_tls_is_working(struct conn *conn);

/* While tls->shaking: takes what was received. */
void
conn_tls_shake(struct conn *conn);

/* A step of the handshake was delivered, or its output is sent: the next one. */
enum conn_tls_next
conn_tls_shaken(struct conn *conn);

/* Decrypts bytes that were received, `size` at most.  *length, and TLS_DONE if it is `size`; else
 * the reason for less: TLS_MORE, TLS_CLOSED or TLS_FAILED. */
enum tls_result
conn_tls_read(struct conn *conn, void *to, size_t size, size_t *length);

/* Encrypts and sends conn->message. */
void
conn_tls_send(struct conn *conn);

/* Sends conn->message, encrypted if there is TLS. */
static inline void
conn_send(struct conn *conn)
{
	if (__builtin_expect(conn->tls != NULL, 0))
		conn_tls_send(conn);
	else
		loop_send(conn->worker->loop, &conn->send_op, conn->fd, &conn->message);
}

/* The socket has taken so many bytes; a connection that is lost sends no more. */
enum conn_tls_next
conn_tls_sent(struct conn *conn, size_t length);

/* The session has failed: aborts the connection, and the log says why. */
void
conn_tls_fail(struct conn *conn);

/* As conn_warn_of_error(), or 0: the client has closed its end.  In the handshake of TLS, the log
 * always says that the client has left, which then may not trust this server. */
void
conn_tls_warn_of_end(const struct conn *conn, int result);

/* Lets the kernel take over, if it can and now is the moment for it; then conn->tls is NULL. */
void
conn_tls_ask_kernel(struct conn *conn);

/* Ends a connection whose keys the kernel has used as long as they may be: see ktls_record_limit().
 * Its client's requests so far are carried out. */
void
conn_tls_check_keys(struct conn *conn);

/* Whether bytes have come that are not decrypted. */
bool
conn_tls_has_input(const struct conn *conn);

/* Tells the client that the connection ends here, if that is possible without waiting. */
void
conn_tls_say_end(struct conn *conn);

#endif
