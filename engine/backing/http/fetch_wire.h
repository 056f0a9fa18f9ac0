/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the engine and nbdloop-fetch tell each other, over a socket that keeps messages apart
 * (SOCK_SEQPACKET). Both are of one build and on one machine, so the structures are sent as they
 * are. A message is a structure, with a text or data behind it.
 *
 * The engine gives each transfer a slot, and uses the slot again only after FETCH_ENDED. If
 * nbdloop-fetch's inner process dies, the outer one sends FETCH_RESTARTED when a new one runs: all
 * slots are free then, and all pages are unknown. Orders for the dead process may still be in the
 * socket, with slots that are used for other reads by now. So each order names the process that it
 * is for, by the number of processes before it.
 */
#ifndef ENGINE_BACKING_HTTP_FETCH_WIRE_H
#define ENGINE_BACKING_HTTP_FETCH_WIRE_H

#include <stdint.h>

/* The name of the program, its descriptor of the socket, and its only argument, which changes with
 * the structures. */
#define FETCH_PROGRAM  "nbdloop-fetch"
#define FETCH_SOCKET   3
#define FETCH_PROTOCOL "protocol-2"

/* Transfers at a time. */
#define FETCH_SLOTS 512

/* Sizes of texts and of the data in a message, in bytes. */
#define FETCH_URL_MAX       4096
#define FETCH_VALIDATOR_MAX 256
#define FETCH_TEXT_MAX      256
#define FETCH_DATA_MAX      (64 << 10)

/* The size of a page that is not known yet. */
#define FETCH_SIZE_UNKNOWN UINT64_MAX

enum fetch_order_type {
	FETCH_OPEN, /* `page` is at the URL behind this structure; `offset` is its size. If the size
		       is not known, nbdloop-fetch finds it by a transfer in `slot`, and sends
		       FETCH_OPENED before FETCH_ENDED. Otherwise the validator follows the URL, and
		       there is no transfer. Both texts end with NUL. A descriptor beside the
		       message is that of a file with certificates */
	FETCH_READ, /* `length` bytes at `offset`, by a transfer in `slot` */
	FETCH_CANCEL, /* ends the transfer in `slot` */
	FETCH_CLOSE,  /* forgets `page`, and ends its transfers */
};

struct fetch_order {
	uint32_t type;  /* enum fetch_order_type */
	uint32_t inner; /* the process that it is for */
	uint32_t page, slot, length;
	uint64_t offset;
};

enum fetch_answer_type {
	FETCH_READY,     /* the text says how nbdloop-fetch is confined */
	FETCH_OPENED,    /* `offset` is the size of the page; the text is the validator */
	FETCH_DATA,      /* the next bytes of `slot`, from `offset` on */
	FETCH_ENDED,     /* `result` is 0, or -errno with a text; -ESTALE: the page has changed */
	FETCH_RESTARTED, /* a new inner process begins, with the number `slot`, and FETCH_READY
			    follows. `result` is 0 if the last one wanted that, and another value if
			    it died */
};

struct fetch_answer {
	uint32_t type; /* enum fetch_answer_type */
	uint32_t slot;
	int32_t result;
	uint32_t keeps; /* ENDED with an error: the bytes that have come are right */
	uint64_t offset;
};

#endif
