/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client's side of the handshake ("Newstyle negotiation"), as a state machine between two byte
 * streams, as handshake.h is the server's: it enters the transmission phase of one export, with
 * simple replies and no metadata contexts, which is all that the kernel's client knows.
 *
 *	nbd_client_handshake_init(&h, "");
 *	while (nbd_client_handshake_feed(&h, bytes, length, &output) == NBD_CLIENT_MORE)
 *		... send the output; receive bytes ...
 *
 * It uses NBD_OPT_GO; with a server that doesn't know that, NBD_OPT_EXPORT_NAME; and it takes the
 * oldstyle negotiation of a server that has one export only.
 *
 * With TLS it asks for that first (NBD_OPT_STARTTLS), and for nothing before the TLS session is
 * there, which is not its own: a server that refuses, or that sends a byte in the clear after it
 * has agreed, makes the handshake fail.
 */
#ifndef NBD_CLIENT_HANDSHAKE_H
#define NBD_CLIENT_HANDSHAKE_H

#include "nbd/handshake_state.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest data of an option's reply, in bytes: a type of information, and a string. */
#define NBD_CLIENT_REPLY_MAX (2 + NBD_STRING_MAX)

/* A buffer for output must have at least so many bytes: the client's flags, and both options with a
 * name of full length, since a server may answer before it is asked. */
#define NBD_CLIENT_ROOM (NBD_CLIENT_FLAGS_SIZE + 2 * (NBD_OPTION_HEADER_SIZE + NBD_STRING_MAX) + 8)

enum nbd_client_result {
	NBD_CLIENT_MORE,   /* send the output, and feed what the server sends */
	NBD_CLIENT_TLS,    /* begin TLS on the connection, then nbd_client_handshake_secured() */
	NBD_CLIENT_READY,  /* the next byte on the connection is a request's first */
	NBD_CLIENT_FAILED, /* close the connection; .reason says why */
};

/* About 9 KiB. */
struct nbd_client_handshake {
	/* With READY. */
	uint64_t size;           /* of the export, bytes, up to INT64_MAX */
	uint32_t smallest_block; /* that the server wants, bytes, a power of two up to 64 KiB; 0: it
				    didn't tell */
	uint16_t flags;          /* transmission flags: NBD_FLAG_HAS_FLAGS and others */
	/* With FAILED: a sentence, with the server's own words, which hold no control character. */
	char reason[NBD_STRING_MAX + 128];

	/* Private. */
	const char *export;
	bool tls;
	enum {
		NBD_CLIENT_AT_GREETING,
		NBD_CLIENT_AT_OLDSTYLE,
		NBD_CLIENT_AT_STARTTLS, /* the reply to that */
		NBD_CLIENT_AT_TLS,
		NBD_CLIENT_AT_REPLY,  /* to NBD_OPT_GO */
		NBD_CLIENT_AT_EXPORT, /* the reply to NBD_OPT_EXPORT_NAME */
		NBD_CLIENT_AT_END,
	} at;
	enum nbd_client_result result; /* at AT_END: what feeding returns from now on */
	bool no_zeroes;                /* the server set NBD_FLAG_NO_ZEROES */
	bool described;                /* size and flags have come */
	unsigned int replies;          /* to NBD_OPT_GO, as many as have come */
	size_t have;                   /* bytes in .in */
	uint8_t in[NBD_REP_HEADER_SIZE + NBD_CLIENT_REPLY_MAX];
};

/* Starts a handshake for the export of that name, a string of at most NBD_STRING_MAX bytes, which
 * is borrowed; "": the default export. Nothing needs to be freed afterwards. */
void
nbd_client_handshake_init(struct nbd_client_handshake *h, const char *export, bool tls);

/* After NBD_CLIENT_TLS, when the TLS session is there: appends what is to be sent through it. What
 * comes through it is fed as before. */
void
nbd_client_handshake_secured(struct nbd_client_handshake *h, struct nbd_output *output);

/* Consumes all bytes of the server, and appends the client's answer to the output, which has room
 * for NBD_CLIENT_ROOM bytes when it is empty, as it must be. */
enum nbd_client_result
nbd_client_handshake_feed(struct nbd_client_handshake *h, const uint8_t *bytes, size_t length,
			  struct nbd_output *output);

#endif
