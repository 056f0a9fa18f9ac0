/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A layer as bytes in a file: some granules of a disk at fixed places, and two maps that say which.
 * What the file does not hold comes from its base. All numbers are little-endian.
 *
 *	0            4096  header
 *	4096         4096  the header once more: one of both is written at a time
 *	8192               stable map: granules whose bytes are on stable storage
 *	other_at           the stable map once more: of each block, the two take turns
 *	recent_at          recent map: granules whose bytes may be in the page cache only
 *	data_at            the disk; granules that the layer does not hold are holes, or leftovers
 *
 * Header
 *	   0     8  "nbdloopL"
 *	   8     4  version: 1
 *	  12     4  state: 1 writable, 2 sealed, 3 half committed: its base has some of its granules
 *	  16     8  sequence: of two headers that are whole, the higher one counts
 *	  24    16  identity, random
 *	  40     8  size of the disk, in bytes
 *	  48     8  visible: what is beyond so many bytes of the base reads as zeroes
 *	  56     8  granule, in bytes: a power of 2, 4096 to 65536
 *	  64     8  capacity of each map, in bytes of the disk
 *	  72     8  recent_at
 *	  80     8  data_at, a multiple of 1 MiB
 *	  88    40  boot id of the kernel under which the recent map counts, with zeroes after it;
 *	            "": all is in the stable map; "failed": the recent map must not be used
 *	 128     4  base: 0 none (all zeroes), 1 raw bytes, 2 a layer
 *	 136     8  size of the base, in bytes
 *	 144     8  base 1: st_mtim, nanoseconds since 1970
 *	 152    16  base 2: its identity
 *	 168  1024  path of the base, with zeroes after it: relative to the layer's directory
 *	1192     8  opening, random: of the last server that has changed the disk; 0: none has
 *	4092     4  checksum (CRC-32C) of the bytes before it
 * Map block, 512 bytes, which a power cut does not tear; all zeroes: no granule
 *	   0   496  a bit for each granule: the layer holds it
 *	 496     8  generation: odd ones are in the second stable map; 0 in the recent map
 *	 504     4  number of the block in its map
 *	 508     4  checksum (CRC-32C) of the bytes before it, beginning with that of the identity
 *
 * A bit is never taken back. It comes into the stable map only after its granule is on stable
 * storage, so an old stable map tells too little, and the base's old bytes are read. A new
 * generation of a block never overwrites the newest one that is on stable storage. So after a
 * power cut, at most one of both is torn, and it was not needed yet. The recent map is right as
 * long as the page cache is: for processes of the same boot.
 */
#ifndef ENGINE_LAYER_LAYER_FORMAT_H
#define ENGINE_LAYER_LAYER_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#define LAYER_HEADER_SIZE    4096u
#define LAYER_STABLE_AT      (UINT64_C(2) * LAYER_HEADER_SIZE)
#define LAYER_BLOCK_SIZE     512u
#define LAYER_BLOCK_WORDS    62u
#define LAYER_BLOCK_GRANULES (LAYER_BLOCK_WORDS * 64)
#define LAYER_GRANULE_MIN    4096u
#define LAYER_GRANULE_MAX    65536u
#define LAYER_PATH_MAX       1024u /* with its NUL */
#define LAYER_BOOT           40u   /* with its NUL */
/* The boot id after a failed write-back. */
#define LAYER_FAILED "failed"
/* The largest disk, in bytes. */
#define LAYER_SIZE_MAX (UINT64_C(1) << 50)

enum layer_state {
	LAYER_WRITABLE = 1,
	LAYER_SEALED,
	LAYER_COMMITTING,
};

enum layer_base {
	LAYER_BASE_NONE,
	LAYER_BASE_RAW,
	LAYER_BASE_LAYER,
};

struct layer_id {
	uint8_t bytes[16];
};

struct layer_header {
	enum layer_state state;
	uint64_t sequence;
	struct layer_id id;
	uint64_t size, visible, granule, capacity; /* bytes */
	uint64_t other_at, recent_at, data_at;     /* offsets in the file, in bytes */
	char boot[LAYER_BOOT];                     /* "": the recent map does not count */
	enum layer_base base;
	uint64_t base_size;      /* bytes */
	int64_t base_modified;   /* RAW: nanoseconds since 1970 */
	struct layer_id base_id; /* LAYER */
	char path[LAYER_PATH_MAX];
	uint64_t opening; /* whoever changes the disk without a server sets a new one, too */
};

/* Returns whether a file of this name is meant to be a layer: it ends in ".layer". */
bool
layer_is_named(const char *path);

/* Sets .capacity and the offsets from .size and .granule. */
void
layer_header_place(struct layer_header *header);

void
layer_header_encode(const struct layer_header *header, uint8_t bytes[LAYER_HEADER_SIZE]);

/* Returns whether the bytes, at least 8, begin as a layer does. */
bool
layer_header_is_one(const void *bytes);

/* Returns 0; -EILSEQ: the bytes are no layer's; -ENOTSUP: of another version; or -EBADMSG: torn or
 * corrupted. */
int
layer_header_decode(struct layer_header *header, const uint8_t bytes[LAYER_HEADER_SIZE]);

/* Returns the number of blocks of a map for so many bytes. */
uint64_t
layer_blocks_for(uint64_t bytes, uint64_t granule);

/* The contents of a map block. */
struct layer_block {
	uint64_t number, generation;
	uint64_t words[LAYER_BLOCK_WORDS];
};

void
layer_block_encode(const struct layer_block *block, const struct layer_id *id,
		   uint8_t bytes[LAYER_BLOCK_SIZE]);

/* Returns 0, also for a block of zeroes; or -EBADMSG: torn, corrupted, or not number `number`. */
int
layer_block_decode(struct layer_block *block, const struct layer_id *id, uint64_t number,
		   const uint8_t bytes[LAYER_BLOCK_SIZE]);

/* Returns where a generation of a block is in the file, in bytes. */
static inline uint64_t
layer_block_at(const struct layer_header *header, uint64_t number, uint64_t generation)
{
	return (generation % 2 ? header->other_at : LAYER_STABLE_AT) + number * LAYER_BLOCK_SIZE;
}

#endif
