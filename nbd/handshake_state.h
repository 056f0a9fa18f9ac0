/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a handshake, and the functions that it calls in the server: shared by handshake.c,
 * which splits the client's bytes into options, and option.c, which answers them.
 */
#ifndef NBD_HANDSHAKE_STATE_H
#define NBD_HANDSHAKE_STATE_H

#include "nbd/export.h"
#include "nbd/protocol.h"
#include "nbd/session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest option data that is read, in bytes: three strings of full length (NBD_STRING_MAX), and
 * some more. */
#define NBD_OPTION_MAX 16384u

/* Usual limits for nbd_handshake_config: a number of options, and bytes. A client that lists many
 * exports sends two options for each of them. */
#define NBD_HANDSHAKE_OPTIONS 1024u
#define NBD_HANDSHAKE_SKIP    (1u << 20)

/* A buffer for output must have at least so many bytes: the longest reply to an option other than
 * LIST (four items of information, among them the name and the description, and the final ACK). */
#define NBD_HANDSHAKE_ROOM 8448u

/* Longest name of a dirty bitmap, in bytes. So there is room for all of them in NBD_HANDSHAKE_ROOM.
 */
#define NBD_BITMAP_NAME_MAX 128

struct nbd_output {
	uint8_t *bytes;
	size_t size; /* of the buffer, in bytes */
	size_t used; /* bytes to be sent; the caller sends them and sets it to 0 */
};

/* Why a client gets no export. */
struct nbd_refusal {
	uint32_t type;       /* NBD_REP_ERR_* */
	const char *message; /* for the client, up to 200 bytes; static */
	bool later;          /* it gets none yet: the option is answered when the handshake is fed
				again, and nothing of the refusal is sent */
};

/* The server's exports, as one client may see them. A pointer to an export must stay valid until
 * the answer to the client's option is complete. */
struct nbd_export_source {
	/* Returns the export of that name (not NUL-terminated, without a NUL, up to NBD_STRING_MAX
	 * bytes; "" asks for the default export), or NULL: the client is told *refusal, which is
	 * preset to "there is no such export". Must not open anything: the client has not chosen an
	 * export yet. */
	const struct nbd_export *(*find)(void *data, const char *name, size_t length,
					 struct nbd_refusal *refusal);
	/* Returns the n-th export of the list, from 0, or NULL past its end. If .list itself is
	 * NULL, NBD_OPT_LIST is refused. */
	const struct nbd_export *(*list)(void *data, size_t n);
	/* Writes the name of the n-th dirty bitmap of the export, from 0, without the prefix
	 * NBD_DIRTY_BITMAP. Returns its id, which is neither 0 nor NBD_ALLOCATION_ID, or 0: there
	 * are fewer. NULL: no export has any. */
	uint32_t (*bitmap)(void *data, const struct nbd_export *export, size_t n,
			   char name[NBD_BITMAP_NAME_MAX + 1]);
	/* Why a dirty bitmap can't be selected although the export may have it, as a static text
	 * for the client of up to 200 bytes; `name` is as above, but not NUL-terminated. NULL: it
	 * can, or is none. If .bitmap_problem itself is NULL, all can. */
	const char *(*bitmap_problem)(void *data, const struct nbd_export *export, const char *name,
				      size_t length);
	/* Whether the client may not write to the export, even if others may. The same for an
	 * export as long as the pointer to it is valid. NULL: it may. */
	bool (*read_only)(void *data, const struct nbd_export *export);
	/*
	 * A client is about to enter the transmission phase with this export, which must then stay
	 * valid until the server itself releases it. Returns 0, or NBD_REP_ERR_* with *message, a
	 * text for the client of up to 200 bytes (it is preset to a general one). If .join itself
	 * is NULL, every client may use every export.
	 */
	uint32_t (*join)(void *data, const struct nbd_export *export, const char **message);
};

enum nbd_tls {
	NBD_TLS_OFF,      /* STARTTLS is refused */
	NBD_TLS_ALLOWED,  /* the client decides */
	NBD_TLS_REQUIRED, /* "FORCEDTLS": before TLS, only STARTTLS and ABORT are accepted */
};

struct nbd_handshake_config {
	const struct nbd_export_source *exports;
	void *data;           /* for the functions of .exports */
	unsigned int options; /* most options that a client may send: NBD_HANDSHAKE_OPTIONS */
	uint32_t skip;        /* longest option, in bytes; a longer one ends the connection */
	enum nbd_tls tls;
	/* What each option but NBD_OPT_ABORT is refused with: there are no exports, and no TLS.
	 * NULL: the client may have one. */
	const struct nbd_refusal *refusal;
};

enum nbd_handshake_result {
	/* All bytes were consumed and more are needed. Send the output first. */
	NBD_HANDSHAKE_MORE,
	/* The output has no room for the next reply. Send the output, then feed the remaining
	 * bytes; if none remain, call with length 0. */
	NBD_HANDSHAKE_FULL,
	/* Send the output. h->session is the result; the remaining bytes are requests. */
	NBD_HANDSHAKE_TRANSMISSION,
	/* Send the output, start TLS, call nbd_handshake_secured(), continue to feed. No byte
	 * remains: a client that sent bytes in clear after STARTTLS is disconnected. */
	NBD_HANDSHAKE_STARTTLS,
	/* .find() wants the option to be answered later. Send the output, then feed the remaining
	 * bytes, or none, when the export can be found. */
	NBD_HANDSHAKE_WAITS,
	/* Send the output, close the connection. h->reason is for the log. */
	NBD_HANDSHAKE_CLOSE,
};

/* Private, except for session and reason. The caller's connection embeds it while it negotiates.
 * About 20 KiB. */
struct nbd_handshake {
	struct nbd_session session;
	const char *reason; /* with CLOSE: a sentence, static or from .join(); NULL: the client
			       ended the handshake (ABORT) */

	struct nbd_handshake_config config;
	enum {
		NBD_AT_CLIENT_FLAGS,
		NBD_AT_OPTION,  /* receives an option's header */
		NBD_AT_PAYLOAD, /* receives its data and keeps them */
		NBD_AT_SKIP,    /* receives its data and discards them */
		NBD_AT_ANSWER,  /* has the option, and answers it when it is fed again */
		NBD_AT_LIST,    /* replies to NBD_OPT_LIST */
		NBD_AT_TLS,     /* waits for nbd_handshake_secured() */
		NBD_AT_END,
	} at;
	enum nbd_handshake_result
		result;            /* at AT_END: what nbd_handshake_feed() returns from now on */
	bool fixed;                /* the client set NBD_FLAG_C_FIXED_NEWSTYLE */
	bool no_zeroes;            /* the client set NBD_FLAG_C_NO_ZEROES */
	bool secure;               /* TLS is on */
	bool needs_tls;            /* an option was refused because TLS was not on */
	unsigned int options;      /* received so far */
	uint32_t option;           /* the current one: NBD_OPT_* */
	uint32_t length;           /* of its data, in bytes */
	uint32_t have;             /* bytes of the current header or data that have arrived */
	size_t listed;             /* at AT_LIST: exports sent so far */
	bool context;              /* base:allocation was selected ... */
	unsigned int bitmap_count; /* ... or so many dirty bitmaps ... */
	uint32_t bitmaps[NBD_BITMAPS_MAX]; /* ... with these ids ... */
	uint16_t context_length;           /* ... for the export of this name */
	char context_name[NBD_STRING_MAX];
	uint8_t payload[NBD_OPTION_MAX]; /* the data of the option, or a header */
};

/* Ends the handshake with this result; reason as in struct nbd_handshake. */
static inline void
nbd_handshake_end(struct nbd_handshake *h, enum nbd_handshake_result result, const char *reason)
{
	h->at = NBD_AT_END;
	h->result = result;
	h->reason = reason;
}

#endif
