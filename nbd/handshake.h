/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's side of the fixed newstyle handshake, as a state machine between two byte streams:
 * what the client sent goes in, in pieces of any size; what it is to be sent comes out.  No socket,
 * no clock (a time limit is the caller's), no allocation.
 *
 *	nbd_handshake_init(&h, &config);
 *	nbd_handshake_greet(&h, &output);
 *	... send the output; receive bytes ...
 *	switch (nbd_handshake_feed(&h, bytes, length, &consumed, &output)) ...
 *
 * At most NBD_OPTION_MAX bytes of an option are kept.  Longer ones, and unknown ones of any length,
 * are skipped as they come and then refused.
 */
#ifndef NBD_HANDSHAKE_H
#define NBD_HANDSHAKE_H

#include "nbd/handshake_state.h"

#include <stddef.h>
#include <stdint.h>

/* Starts a handshake. config is copied; nothing needs to be freed afterwards. */
void
nbd_handshake_init(struct nbd_handshake *h, const struct nbd_handshake_config *config);

/* Puts the server's greeting into an empty output. */
void
nbd_handshake_greet(struct nbd_handshake *h, struct nbd_output *output);

/* Takes bytes from the client; *consumed tells how many. Replies are appended to the output. */
enum nbd_handshake_result
nbd_handshake_feed(struct nbd_handshake *h, const uint8_t *bytes, size_t length, size_t *consumed,
		   struct nbd_output *output);

/* TLS has begun: what was agreed on in clear is forgotten. */
void
nbd_handshake_secured(struct nbd_handshake *h);

/* The server is about to end: from now on every option but NBD_OPT_ABORT is refused for that
 * reason. */
void
nbd_handshake_shutdown(struct nbd_handshake *h);

#endif
