/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of a negotiation that is inside of TLS: the TLS handshake, the rest of the NBD
 * handshake, and the hand-over of the keys to the kernel, or of the session.  It uses the socket
 * only to hand over the keys.
 */
#ifndef TOOL_LINK_NEGOTIATION_TLS_H
#define TOOL_LINK_NEGOTIATION_TLS_H

#include "tool/link/negotiation_aim.h"

#include "nbd/client_handshake.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct negotiation_tls;
struct tls_session;

/* NULL: there is no memory. */
struct negotiation_tls *
negotiation_tls_new(const struct negotiation_aim *aim);

/* Wipes the keys.  NULL is fine. */
void
negotiation_tls_free(struct negotiation_tls *tls);

enum negotiation_tls_result {
	NEGOTIATION_TLS_SENDS,    /* all output is to be sent before the next step */
	NEGOTIATION_TLS_RECEIVES, /* bytes must come before the next step */
	NEGOTIATION_TLS_READY,    /* the NBD handshake has ended; negotiation_tls_finish() */
	NEGOTIATION_TLS_FAILED,   /* negotiation_tls_reason() */
};

/* Goes on as far as is possible with one output, which is empty before. */
enum negotiation_tls_result
negotiation_tls_step(struct negotiation_tls *tls, struct nbd_client_handshake *handshake,
		     struct nbd_output *output);

/* Where bytes of the server are to be received, after RECEIVES; negotiation_tls_received() tells
 * how many have come. */
uint8_t *
negotiation_tls_room(struct negotiation_tls *tls, size_t *size);
void
negotiation_tls_received(struct negotiation_tls *tls, size_t length);

/* After READY, and before another byte is received: tells the version and cipher.  False: the
 * server has said too much, see negotiation_tls_reason(). */
bool
negotiation_tls_finish(struct negotiation_tls *tls, char *cipher, size_t size);

/* Then, either: gives the kernel the keys.  Tells how many records one key is good for (0: no
 * limit).  False: see negotiation_tls_reason(). */
bool
negotiation_tls_hand_over(struct negotiation_tls *tls, int fd, uint64_t *record_limit);

/* Or: the session, which is the caller's from now on. */
struct tls_session *
negotiation_tls_take_session(struct negotiation_tls *tls);

/* A sentence. */
const char *
negotiation_tls_reason(const struct negotiation_tls *tls);

#endif
