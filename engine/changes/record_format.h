/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The record of an image's checkpoints, as bytes in a file. All numbers are little-endian.
 *
 *	 0     8192  header
 *	 8192  8192  the header once more: record.c writes one of both at a time
 *	16384        bitmap blocks, 512 bytes each, which a power cut does not tear
 *
 * Header
 *	   0     8  "nbdloopC"
 *	   8     4  version: 1
 *	  12     4  state: 1 in use, 2 closed, 3 unknown
 *	  16     8  sequence: of two headers that are whole, the higher one counts
 *	  24    40  boot id of the kernel under which this was written, with zeroes after it
 *	  64     4  kind of image: 1 file, 2 block device, 3 layer
 *	  68     4  number of checkpoints
 *	  72    80  the image: struct witness, in its order
 *	 152     8  size of a region, in bytes
 *	 160   160  state 3: why, with zeroes after it
 *	 320   512  regions: a bit for each, in which granules may lack that are not durable yet
 *	 832  5888  checkpoints, 184 bytes each, oldest first; the rest zeroes
 *	      8188  checksum (CRC-32C) of the bytes before it
 * Checkpoint
 *	   0   136  name, with zeroes after it
 *	 136     8  granule, in bytes
 *	 144     8  begun, in seconds since 1970
 *	 152     8  covered: what is beyond so many bytes of the image counts as changed
 *	 160     8  granules in the bitmap
 *	 168     8  number of the first bitmap block
 *	 176     8  owner: what its bitmap blocks have as theirs
 * Bitmap block
 *	   0   496  a bit for each granule: changed
 *	 496     8  owner
 *	 504     4  number of the block in its bitmap
 *	 508     4  checksum (CRC-32C) of the bytes before it
 */
#ifndef ENGINE_CHANGES_RECORD_FORMAT_H
#define ENGINE_CHANGES_RECORD_FORMAT_H

#include "engine/backing/backing.h"
#include "engine/changes/checkpoint_facts.h"
#include "engine/changes/witness.h"

#include <stddef.h>
#include <stdint.h>

#define RECORD_VERSION     1
#define RECORD_HEADER_SIZE 8192u
#define RECORD_BLOCK_SIZE  512u
#define RECORD_BLOCKS_AT   (UINT64_C(2) * RECORD_HEADER_SIZE)

/* The words, and the granules, of a block. */
#define RECORD_BLOCK_WORDS    62u
#define RECORD_BLOCK_GRANULES (RECORD_BLOCK_WORDS * 64)

#define RECORD_REGIONS        4096u
#define RECORD_REGION_MIN     (UINT64_C(16) << 20) /* bytes */

enum record_state {
	RECORD_IN_USE = 1,
	RECORD_CLOSED, /* the image was like its witness then */
	RECORD_UNKNOWN,
};

struct record_entry {
	char name[CHECKPOINT_NAME_MAX + 1];
	uint64_t granule; /* bytes */
	int64_t begun;    /* seconds since 1970 */
	uint64_t covered; /* bytes */
	uint64_t granules;
	uint64_t first_block, owner;
};

struct record_header {
	enum record_state state;
	uint64_t sequence;
	struct witness witness;
	uint64_t region; /* bytes */
	char reason[REASON_MAX];
	uint64_t regions[RECORD_REGIONS / 64];
	uint32_t count;
	struct record_entry entries[CHECKPOINTS_MAX]; /* .count of them */
};

/* Returns the size of the regions of an image of that size, in bytes. */
uint64_t
record_region_for(uint64_t size);

/* Returns the number of bitmap blocks for so many granules. */
uint64_t
record_blocks_for(uint64_t granules);

void
record_header_encode(const struct record_header *header, uint8_t bytes[RECORD_HEADER_SIZE]);

/* Returns 0; -EILSEQ: the bytes are none of ours; -ENOTSUP: ours, but of another version; or
 * -EBADMSG: torn or corrupted. After a failure, *error is the rest of a sentence that begins with
 * the file (the caller frees it). */
int
record_header_decode(struct record_header *header, const uint8_t bytes[RECORD_HEADER_SIZE],
		     char **error);

/* A block with these words, RECORD_BLOCK_WORDS of them. */
void
record_block_encode(const uint64_t *words, uint64_t owner, uint32_t number,
		    uint8_t bytes[RECORD_BLOCK_SIZE]);

/* Returns 0 or -EBADMSG: torn, corrupted, or another block. */
int
record_block_decode(uint64_t *words, uint64_t owner, uint32_t number,
		    const uint8_t bytes[RECORD_BLOCK_SIZE]);

#endif
