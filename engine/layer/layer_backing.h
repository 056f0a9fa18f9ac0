/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A layer as a backing: a file whose disk begins after its maps, and whose bytes may lie in the
 * files below it (struct backing's .layers).
 */
#ifndef ENGINE_LAYER_LAYER_BACKING_H
#define ENGINE_LAYER_LAYER_BACKING_H

struct backing;
struct image_config;

/* Makes the backing, a file that was opened as raw bytes, one of a layer, if it begins as a layer
 * does: opens the chain and takes the locks. `dirfd` is what its path is relative to. Returns 0
 * (also if it is no layer), or -errno with *error, a sentence (the caller frees it); after that,
 * the caller closes the backing. */
int
layer_backing_adopt(struct backing *backing, int dirfd, const struct image_config *config,
		    char **error);

#endif
