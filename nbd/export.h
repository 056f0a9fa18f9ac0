/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The facts about an export that the protocol needs. The server fills them in and owns them; the
 * image that it serves under this name is unknown here.
 */
#ifndef NBD_EXPORT_H
#define NBD_EXPORT_H

#include <stdbool.h>
#include <stdint.h>

/* The bits that .flags may hold ("Transmission flags"). The server doesn't choose the others:
 * HAS_FLAGS is always sent, and DF when replies come in chunks. */
#define NBD_EXPORT_FLAGS                                                                           \
	(NBD_FLAG_READ_ONLY | NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_FUA | NBD_FLAG_ROTATIONAL |      \
	 NBD_FLAG_SEND_TRIM | NBD_FLAG_SEND_WRITE_ZEROES | NBD_FLAG_CAN_MULTI_CONN |               \
	 NBD_FLAG_SEND_CACHE | NBD_FLAG_SEND_FAST_ZERO)

struct nbd_export {
	const char *name;        /* canonical, UTF-8, up to NBD_STRING_MAX bytes; may be "" */
	const char *description; /* for people; UTF-8, up to NBD_STRING_MAX bytes; NULL: none */
	uint64_t size;           /* bytes */
	uint32_t min_block; /* bytes, 1 to NBD_MIN_BLOCK_MAX ("Size constraints"); smaller requests
			   are served, too */
	uint32_t preferred_block; /* bytes, at least 512 and min_block */
	uint32_t max_payload;     /* bytes of one read or write, at most; at least 1 MiB */
	uint16_t flags;           /* of NBD_EXPORT_FLAGS; READ_ONLY removes TRIM and WRITE_ZEROES */
	bool allocation;          /* the metadata context base:allocation can be selected */
};

/*
 * Checks that an export keeps to the specification ("Conventions", "Size constraints"); the server
 * calls this before it offers the export. Returns NULL, or a static sentence that names the
 * problem.
 */
const char *
nbd_export_problem(const struct nbd_export *export);

/* Returns the transmission flags for a client; `read_only`: it may not write, even if others may;
 * `chunks`: it gets its replies in chunks, structured or extended. */
uint16_t
nbd_export_flags(const struct nbd_export *export, bool read_only, bool chunks);

#endif
