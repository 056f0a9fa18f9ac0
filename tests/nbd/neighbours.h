/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that work on neighbouring and on overlapping parts of the same blocks. A server that
 * reads a block, changes a part and writes it back, without excluding other writers, loses their
 * bytes; only such neighbours notice.
 */
#ifndef TESTS_NBD_NEIGHBOURS_H
#define TESTS_NBD_NEIGHBOURS_H

#include <stdint.h>

struct server;

struct neighbours {
	const struct server *server;
	const char *const *names; /* exports, taken in turn by the connections, */
	unsigned int name_count;  /* names of exports of the same image */
	uint64_t offset;          /* offset of the first byte in use */
	uint64_t length;          /* bytes that each connection owns */
	unsigned int connections;
	unsigned int rounds;
	uint64_t seed;
};

/* Each connection owns `length` bytes next to another's; in each round it writes all of them and
 * reads them back. */
void
neighbours_write(struct neighbours *neighbours);

/* As above, but each writes, zeroes and trims any part of its bytes. */
void
neighbours_change(struct neighbours *neighbours);

/*
 * Pairs of connections share 4 * length bytes: one writes, zeroes or trims all of them in whole
 * blocks, the other writes a part in the middle that begins and ends within blocks. `length` is the
 * block size. Whichever writes last, the bytes of the first around that part stay.
 */
void
neighbours_overlap(struct neighbours *neighbours);

#endif
