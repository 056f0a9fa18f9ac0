/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One connection on its way to an NBD server: from connect() to the end of the handshake.  With
 * TLS, that includes the moment in which the kernel gets the keys, unless a proxy is to have them.
 * Nothing waits here but negotiations_wait(), for any of many.
 */
#ifndef TOOL_LINK_NEGOTIATION_H
#define TOOL_LINK_NEGOTIATION_H

#include "tool/link/nbd_uri.h"

#include "nbd/client_handshake.h"
#include "nbd/tls/session.h"

#include <glib.h>

struct negotiation_tls;

/* What is wanted; borrowed until the end of the negotiation. */
struct negotiation_aim {
	const char *export;                  /* its name */
	struct tls_credentials *credentials; /* NULL: no TLS */
	const char *hostname; /* that the server's certificate must have; NULL: any that it has */
	bool proxy;           /* with TLS: a proxy gets the keys, and not the kernel */
};

struct negotiation {
	int fd; /* -1: not begun, has failed, or taken */
	enum {
		NEGOTIATION_IS_QUEUED, /* the server has to accept others first */
		NEGOTIATION_CONNECTING,
		NEGOTIATION_GOES_ON,
		NEGOTIATION_READY,  /* .handshake has the result */
		NEGOTIATION_FAILED, /* .reason says why */
	} state;
	char *reason;
	const struct nbd_address *address; /* to connect to */
	const struct negotiation_aim *aim;
	struct nbd_client_handshake handshake;
	struct nbd_output output;    /* for the socket: encrypted, as soon as there is TLS */
	size_t sent;                 /* of the output */
	struct negotiation_tls *tls; /* NULL: it has not begun */
	/* With READY, and TLS: version and cipher, such as "1.3 AES-128-GCM", and how many records
	 * one key is good for (0: there is no limit); else "" and 0. */
	char cipher[64];
	uint64_t record_limit;
	uint8_t room[TLS_ROOM];
};

_Static_assert(TLS_ROOM >= NBD_CLIENT_ROOM, "the output has room for either");

/* Begins over a connected socket, which it takes over. */
void
negotiation_begin(struct negotiation *negotiation, int fd, const struct negotiation_aim *aim);

/* Begins to connect.  The address is borrowed until the end. */
void
negotiation_connect(struct negotiation *negotiation, const struct nbd_address *address,
		    const struct negotiation_aim *aim);

/* Does what can be done without waiting. */
void
negotiation_advance(struct negotiation *negotiation);

/* Makes it fail: the caller may have a reason to refuse one that is ready. */
void
negotiation_fail(struct negotiation *negotiation, const char *reason);

/* Waits until one of them may have news, or until that time (g_get_monotonic_time(); G_MAXINT64:
 * for ever). */
void
negotiations_wait(const struct negotiation *all, unsigned int count, gint64 until);

/* The socket of a ready one; the caller's then. */
int
negotiation_take(struct negotiation *negotiation);

/* The TLS session of a ready one, for a proxy; the caller's then.  NULL: there is none, or the
 * kernel has its keys. */
struct tls_session *
negotiation_take_session(struct negotiation *negotiation);

/* Closes the socket if it wasn't taken. */
void
negotiation_end(struct negotiation *negotiation);

#endif
