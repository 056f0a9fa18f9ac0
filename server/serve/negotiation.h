/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake of a connection: exchanges options and their answers until requests follow.
 */
#ifndef SERVER_SERVE_NEGOTIATION_H
#define SERVER_SERVE_NEGOTIATION_H

#include "nbd/handshake.h"

#include <stdbool.h>
#include <stdint.h>

struct conn;

/* While a connection negotiates. */
struct conn_negotiation {
	struct nbd_handshake handshake;
	struct nbd_output output;
	bool finished; /* when the output is sent, requests follow */
	uint8_t bytes[NBD_HANDSHAKE_ROOM];
};

/* The next thing to do after a step. */
enum negotiation_next {
	NEGOTIATION_WAITS,    /* for the output to be sent, or for the end of the connection */
	NEGOTIATION_RECEIVES, /* more input is needed */
	NEGOTIATION_OVER,     /* all is sent: requests follow */
};

/* Greets the client. */
void
negotiation_start(struct conn *conn);

/* Takes the options in the connection's input. */
enum negotiation_next
negotiation_feed(struct conn *conn);

/* The output was sent. */
enum negotiation_next
negotiation_sent(struct conn *conn);

#endif
