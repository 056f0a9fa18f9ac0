/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that work on neighbouring and on overlapping parts of the same blocks.  A server
 * that reads a block, changes a part and writes it back without keeping the others away loses
 * their bytes, which nothing but such neighbours would notice.
 */
#ifndef TESTS_NBD_NEIGHBOURS_H
#define TESTS_NBD_NEIGHBOURS_H

#include <stdint.h>

struct server;

struct neighbours {
	const struct server *server;
	const char *const *names; /* exports, taken in turn by the connections, */
	unsigned int name_count;  /* that all mean the same image */
	uint64_t offset;          /* of the first byte in use */
	uint64_t length;          /* of what each connection owns */
	unsigned int connections;
	unsigned int rounds;
	uint64_t seed;
};

/* Each connection owns `length` bytes beside the next one's; it writes all of them in each
 * round and reads them back. */
void
neighbours_write(struct neighbours *neighbours);

/* As above, but it writes, zeroes and trims any part of what it owns. */
void
neighbours_change(struct neighbours *neighbours);

/*
 * Pairs of connections share 4 * length bytes: one writes, zeroes or trims all of them with
 * whole blocks, the other writes a part in the middle that begins and ends inside of blocks.
 * `length` is the block size.  Whoever wins there, the first one's bytes around that part stay.
 */
void
neighbours_overlap(struct neighbours *neighbours);

#endif
