/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake of a connection: exchanges options and replies until requests follow.
 */
#ifndef SERVER_CONNECTION_NEGOTIATION_H
#define SERVER_CONNECTION_NEGOTIATION_H

#include "server/connection/offer.h"

#include "nbd/handshake.h"

#include <stdbool.h>
#include <stdint.h>

struct conn;
struct look;

/* Exists while a connection negotiates. */
struct conn_negotiation {
	struct applicant applicant;
	struct nbd_handshake handshake;
	struct nbd_output output;
	struct look *look; /* that the answer to an option waits for, or NULL */
	bool finished;     /* requests follow after the output */
	bool secures;      /* TLS begins after the output */
	uint8_t bytes[NBD_HANDSHAKE_ROOM];
};

/* The next step. */
enum negotiation_next {
	NEGOTIATION_WAITS,    /* for the output to be sent, or for the end of the connection */
	NEGOTIATION_RECEIVES, /* more input is needed */
	NEGOTIATION_LOOKS,    /* somebody looks at the image of applicant.wanted; feed() goes on */
	NEGOTIATION_SECURES,  /* the output is sent, and TLS begins; then negotiation_secured() */
	NEGOTIATION_OVER,     /* the output is sent, and requests follow */
};

/* The connection has ended: logs if it was because of TLS, and frees the negotiation, if there is
 * one. */
void
negotiation_end(struct conn *conn);

/* Frees it; NULL is fine. */
void
negotiation_free(struct conn_negotiation *negotiation);

/* Greets the client. */
void
negotiation_start(struct conn *conn);

/* Takes the options in the connection's input. */
enum negotiation_next
negotiation_feed(struct conn *conn);

/* Returns whether its output or a look is under way, so that it takes no input. */
bool
negotiation_waits(const struct conn *conn);

/* Goes on after the output was sent. */
enum negotiation_next
negotiation_sent(struct conn *conn);

/* TLS has begun. */
void
negotiation_secured(struct conn *conn);

#endif
