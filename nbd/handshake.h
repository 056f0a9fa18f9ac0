/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's side of the fixed newstyle handshake ("Newstyle negotiation"), as a state machine
 * between two byte streams: the client's bytes go in, in pieces of any size, and the server's bytes
 * come out. It uses no socket, no clock (the caller sets a time limit), and allocates nothing.
 *
 *	nbd_handshake_init(&h, &config);
 *	nbd_handshake_greet(&h, &output);
 *	... send the output; receive bytes ...
 *	switch (nbd_handshake_feed(&h, bytes, length, &consumed, &output)) ...
 *
 * At most NBD_OPTION_MAX bytes of an option are kept. Longer options, and unknown ones of any
 * length, are skipped as they arrive, and then refused.
 */
#ifndef NBD_HANDSHAKE_H
#define NBD_HANDSHAKE_H

#include "nbd/handshake_state.h"

#include <stddef.h>
#include <stdint.h>

/* Starts a handshake. config is copied, but not the sources of exports that it points at. Nothing
 * needs to be freed afterwards. */
void
nbd_handshake_init(struct nbd_handshake *h, const struct nbd_handshake_config *config);

/* Writes the server's greeting to an empty output of at least NBD_GREETING_SIZE bytes. */
void
nbd_handshake_greet(struct nbd_handshake *h, struct nbd_output *output);

/*
 * Consumes bytes of the client and appends replies to the output, whose buffer has at least
 * NBD_HANDSHAKE_ROOM bytes. *consumed is set to the number of consumed bytes; the others must be
 * fed again, except where the result says otherwise.
 */
enum nbd_handshake_result
nbd_handshake_feed(struct nbd_handshake *h, const uint8_t *bytes, size_t length, size_t *consumed,
		   struct nbd_output *output);

/* After NBD_HANDSHAKE_STARTTLS, once TLS has begun: forgets what was negotiated in clear, as
 * NBD_OPT_STARTTLS demands. */
void
nbd_handshake_secured(struct nbd_handshake *h);

#endif
