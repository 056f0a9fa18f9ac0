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

/* Makes the backing a temporary clone of `base`, which is open for reading only and is taken over,
 * also after a failure. What is written is in a file without a name, in the directory that
 * config->scratch names or scratch_directory() chooses, and nothing of it is left when the backing
 * is closed or the process is killed. The base is locked against writers. Returns 0, or -errno with
 * *error, as above; then there is nothing to close. */
int
layer_backing_put_temporary(struct backing *backing, struct backing *base,
			    const struct image_config *config, char **error);

#endif
