/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cuts an io into chunks. Each part of the io moves directly between the caller's buffer and the
 * device, or through a bounce buffer, or as the read-modify-write of a block.
 *
 * plan_chunk() is the .plan of images that hold all their bytes; layered.c has that of layers.
 */
#ifndef ENGINE_IO_CHUNK_PLAN_H
#define ENGINE_IO_CHUNK_PLAN_H

#include <stdbool.h>
#include <stdint.h>

struct chunk;
struct image;
struct io;

/*
 * Fills an idle chunk with the next part of the io, and counts that part as issued. Returns false
 * if there is no part to issue: the operation turned out to be complete, or impossible (io->result
 * is then set).
 */
bool
plan_chunk(const struct image *image, struct io *io, struct chunk *chunk);

/* Where the next bytes of a read are. */
struct plan_place {
	uint64_t bytes;  /* their number */
	uint64_t offset; /* in the file below the layer */
	uint8_t below; /* as in struct chunk; 0: they are in the image's own file, at their place */
};

/* Fills an idle chunk with as many of these bytes as one chunk takes, and counts them as issued.
 * Those of a file below the layer go through the page cache, because other layers may have the same
 * base. */
void
plan_read(const struct image *image, struct io *io, struct chunk *chunk,
	  const struct plan_place *place);

#endif
