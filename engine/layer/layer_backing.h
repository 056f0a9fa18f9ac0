/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A layer as a backing: a file whose disk begins after its maps, and whose bytes may lie in the
 * files below it (struct backing's .layers).
 */
#ifndef ENGINE_LAYER_LAYER_BACKING_H
#define ENGINE_LAYER_LAYER_BACKING_H

struct backing;
struct image_config;

/* Makes the backing, a file that was opened as raw bytes, one of a layer, if its name ends in
 * ".layer": opens the chain and takes the locks. A file that only begins as a layer does stays raw,
 * because whoever writes to a raw disk can write such a beginning. Returns 0 (also if it is not
 * named as a layer), or -errno with *error, a sentence (the caller frees it); after that, the
 * caller closes the backing. */
int
layer_backing_adopt(struct backing *backing, const struct image_config *config, char **error);

#endif
