/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How far a handshake has come, and what it asks of the server: shared by handshake.c, which cuts
 * the client's bytes into options, and option.c, which answers them.
 */
#ifndef NBD_HANDSHAKE_STATE_H
#define NBD_HANDSHAKE_STATE_H

#include "nbd/export.h"
#include "nbd/protocol.h"
#include "nbd/session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest option data that is looked at: three strings of full length, and change. */
#define NBD_OPTION_MAX 16384u

/* What nbd_handshake_config usually holds.  A client that lists many exports asks twice for each.
 */
#define NBD_HANDSHAKE_OPTIONS 1024u
#define NBD_HANDSHAKE_SKIP    (1u << 20)

/* A buffer for output must have this size at least: the longest reply to an option other than LIST
 * (four items of information, one of them the name, another the description, and the end of it). */
#define NBD_HANDSHAKE_ROOM 8448u

struct nbd_output {
	uint8_t *bytes;
	size_t size; /* of the buffer */
	size_t used; /* bytes to be sent; the caller takes them away and sets it back */
};

/* The server's exports.  A pointer to an export must stay good until the next call of any of these.
 */
struct nbd_export_source {
	/* The export of that name (not NUL-terminated, no NUL in it, up to NBD_STRING_MAX bytes; ""
	 * asks for the default export), or NULL. Must not open anything: the client has not chosen
	 * yet. */
	const struct nbd_export *(*find)(void *data, const char *name, size_t length);
	/* The n-th export to be listed, NULL at the end. .list itself NULL: listing is off. */
	const struct nbd_export *(*list)(void *data, size_t n);
	/*
	 * A client enters the transmission phase with this export, which must stay good until the
	 * server itself lets go of it.  Returns 0, or NBD_REP_ERR_* with *message (preset with
	 * something general) a text for the client, up to 200 bytes. NULL: all may join.
	 */
	uint32_t (*join)(void *data, const struct nbd_export *export, const char **message);
};

enum nbd_tls {
	NBD_TLS_OFF,      /* STARTTLS is refused */
	NBD_TLS_ALLOWED,  /* the client decides */
	NBD_TLS_REQUIRED, /* "FORCEDTLS": nothing else goes before */
};

struct nbd_handshake_config {
	const struct nbd_export_source *exports;
	void *data;           /* for the functions in it */
	unsigned int options; /* how many options a client may send, e.g. NBD_HANDSHAKE_OPTIONS */
	uint32_t skip;        /* longest option that is skipped; a longer one ends the connection */
	enum nbd_tls tls;
};

enum nbd_handshake_result {
	/* All bytes were taken and more are needed. Send the output first. */
	NBD_HANDSHAKE_MORE,
	/* The output has no room. Make some, then feed the bytes that are left (and if there are
	 * none, feed nothing). */
	NBD_HANDSHAKE_FULL,
	/* Send the output; h->session is agreed on. The bytes that are left are requests. */
	NBD_HANDSHAKE_TRANSMISSION,
	/* Send the output, start TLS, call nbd_handshake_secured(), feed on. No byte is left: a
	 * client that sends in clear what should come through TLS is closed. */
	NBD_HANDSHAKE_STARTTLS,
	/* Send the output, close. h->reason says why, for the log. */
	NBD_HANDSHAKE_CLOSE,
};

/* Private, but for session and reason: embedded in the caller's connection as long as it
 * negotiates. About 20 KiB. */
struct nbd_handshake {
	struct nbd_session session;
	const char *reason; /* CLOSE: a sentence, static or join()'s; NULL: the client ended it
			       (ABORT) */

	struct nbd_handshake_config config;
	enum {
		NBD_AT_CLIENT_FLAGS,
		NBD_AT_OPTION,  /* its header */
		NBD_AT_PAYLOAD, /* its data, kept */
		NBD_AT_SKIP,    /* its data, not kept */
		NBD_AT_LIST,    /* replies to NBD_OPT_LIST going out */
		NBD_AT_TLS,     /* waiting for nbd_handshake_secured() */
		NBD_AT_END,
	} at;
	enum nbd_handshake_result result; /* AT_END: what feed() keeps to */
	bool fixed;                       /* the client speaks fixed newstyle */
	bool no_zeroes;
	bool secure; /* TLS is on */
	bool shutdown;
	unsigned int options;    /* seen so far */
	uint32_t option;         /* the current one */
	uint32_t length;         /* of its data */
	uint32_t have;           /* bytes of the current thing that have arrived */
	size_t listed;           /* AT_LIST: exports told so far */
	bool context;            /* base:allocation was selected ... */
	uint16_t context_length; /* ... for the export of this name */
	char context_name[NBD_STRING_MAX];
	uint8_t payload[NBD_OPTION_MAX]; /* or a header */
};

/* Ends the handshake; reason as in struct nbd_handshake. */
static inline void
nbd_handshake_end(struct nbd_handshake *h, enum nbd_handshake_result result, const char *reason)
{
	h->at = NBD_AT_END;
	h->result = result;
	h->reason = reason;
}

#endif
