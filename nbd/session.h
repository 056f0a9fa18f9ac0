/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What client and server have agreed on: made by the handshake, read by the transmission phase.
 */
#ifndef NBD_SESSION_H
#define NBD_SESSION_H

#include "nbd/export.h"
#include "nbd/protocol.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Which headers are on the wire; the later include what the earlier can do. */
enum nbd_form {
	NBD_FORM_SIMPLE,     /* compact requests, simple replies */
	NBD_FORM_STRUCTURED, /* compact requests, structured (READ, BLOCK_STATUS, errors) and simple
				replies */
	NBD_FORM_EXTENDED,   /* extended requests and replies only */
};

/* The id of base:allocation. */
#define NBD_ALLOCATION_ID 1

struct nbd_session {
	const struct nbd_export *export; /* as joined; owned by the server */
	uint64_t size;      /* bytes that requests may reach; the server sets it when the export was
			       resized */
	uint32_t min_block; /* as advertised, for extents; 0 is as 1 */
	uint32_t max_payload; /* most bytes of one read or write, in either direction */
	uint16_t flags;       /* the transmission flags that were sent */
	enum nbd_form form;
	bool allocation; /* base:allocation was selected for this export */
};

#endif
