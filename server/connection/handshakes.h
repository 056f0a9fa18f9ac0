/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The threads that compute TLS handshakes, which cost milliseconds each: event loops must not.
 * They are few, and their priority is lower, so that many handshakes at once delay each other
 * rather than the clients that are served.
 */
#ifndef SERVER_CONNECTION_HANDSHAKES_H
#define SERVER_CONNECTION_HANDSHAKES_H

#include "server/connection/worker_state.h"

#include "nbd/tls/session.h"

#include <stdatomic.h>
#include <stdbool.h>

struct handshakes;

/* A step of a handshake: from bytes that have come to bytes that are to be sent. */
struct handshake_job {
	struct worker_message
		message; /* delivered when the step is done; .deliver is the owner's */
	struct worker *worker;
	struct tls_session *session; /* NULL before the first step, and if there is no memory */
	struct tls_input input;
	struct nbd_output output;
	enum tls_result result;
	_Atomic bool abandoned; /* nobody waits for a result: steps fail without a computation */
	struct handshake_job *next; /* of the threads */
};

/* Starts the threads. New sessions have these credentials, whose reference is taken over. `post`
 * is worker_post(). 0 or -errno. */
int
handshakes_new(struct handshakes **handshakes, struct tls_credentials *credentials,
	       void (*post)(struct worker *worker, struct worker_message *message));

/* Ends the threads; no step may be under way. NULL is fine. */
void
handshakes_free(struct handshakes *handshakes);

/* Takes over a reference: sessions that begin from now on have these credentials. */
void
handshakes_set_credentials(struct handshakes *handshakes, struct tls_credentials *credentials);

/* The present credentials, with a reference for the caller. */
struct tls_credentials *
handshakes_credentials(struct handshakes *handshakes);

/* Returns whether the session has the present credentials. If it has not, its client may be one
 * that they would have kept out. */
bool
handshakes_know(struct handshakes *handshakes, const struct tls_session *session);

/* Does a step on another thread; until its message is delivered, the job and what it points at
 * belong to that thread. */
void
handshakes_step(struct handshakes *handshakes, struct handshake_job *job);

#endif
