/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The result of the negotiation: the handshake fills it in, the transmission phase reads
 * it.
 */
#ifndef NBD_SESSION_H
#define NBD_SESSION_H

#include "nbd/export.h"
#include "nbd/protocol.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The form of the headers; each form includes the abilities of those before it. */
enum nbd_form {
	NBD_FORM_SIMPLE,     /* compact requests, simple replies */
	NBD_FORM_STRUCTURED, /* compact requests, structured (READ, BLOCK_STATUS, errors) and simple
				replies */
	NBD_FORM_EXTENDED,   /* extended requests and replies only */
};

/* The id of the metadata context base:allocation. */
#define NBD_ALLOCATION_ID 1

/* The most dirty bitmaps that an export has, and a client selects. */
#define NBD_BITMAPS_MAX 32

struct nbd_session {
	const struct nbd_export *export; /* the one that the client joined; owned by the server */
	uint64_t size;        /* of the export, in bytes; the server changes it when the export is
				 resized */
	uint32_t min_block;   /* bytes, as advertised; extents are rounded to it; 0 counts as 1 */
	uint32_t max_payload; /* bytes of one read or write, at most */
	uint16_t flags;       /* the transmission flags that were sent */
	enum nbd_form form;
	bool allocation;                   /* base:allocation was selected for this export */
	unsigned int bitmap_count;         /* how many of its dirty bitmaps were selected ... */
	uint32_t bitmaps[NBD_BITMAPS_MAX]; /* ... and their ids */
};

#endif
