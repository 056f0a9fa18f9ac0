/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the protocol needs to know of an export.  Not the image behind it: the server fills this in
 * and owns it.
 */
#ifndef NBD_EXPORT_H
#define NBD_EXPORT_H

#include <stdbool.h>
#include <stdint.h>

/* What .flags may hold.  Not the server's to say: HAS_FLAGS is always sent, DF as soon as replies
 * come in chunks. */
#define NBD_EXPORT_FLAGS                                                                           \
	(NBD_FLAG_READ_ONLY | NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_FUA | NBD_FLAG_ROTATIONAL |      \
	 NBD_FLAG_SEND_TRIM | NBD_FLAG_SEND_WRITE_ZEROES | NBD_FLAG_CAN_MULTI_CONN |               \
	 NBD_FLAG_SEND_CACHE | NBD_FLAG_SEND_FAST_ZERO)

struct nbd_export {
	const char *name;        /* canonical, UTF-8, up to NBD_STRING_MAX bytes; may be "" */
	const char *description; /* for people, as the name; NULL: none */
	uint64_t size;           /* bytes */
	uint32_t min_block;      /* "Size constraints"; smaller requests are served, too */
	uint32_t preferred_block;
	uint32_t max_payload; /* most bytes of one read or write */
	uint16_t flags;       /* NBD_EXPORT_FLAGS; READ_ONLY takes the writing ones away */
	bool allocation;      /* base:allocation is known */
};

/*
 * Whether an export may be shown to clients: to be asked before it is offered.
 * Returns NULL or a static sentence that tells what is wrong.
 */
const char *
nbd_export_problem(const struct nbd_export *export);

/* The transmission flags for a client with (or without) replies in chunks. */
uint16_t
nbd_export_flags(const struct nbd_export *export, bool chunks);

#endif
