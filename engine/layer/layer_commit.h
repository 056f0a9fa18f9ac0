/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes what a layer holds into its base, a raw image, and empties the layer. No server may have
 * either. A base that is a layer is sealed, and sealed layers never change: layer_rebase.h.
 *
 *	the layer's maps are complete; nobody else has the base
 *	-> state 3 is on the disk: servers refuse the layer, because its witness of the base is void
 *	-> the granules are in the base: the disk on both is the same after each of them
 *	-> the base is on the disk
 *	-> the layer's maps are empty on the disk, then its granules: the base has them
 *	-> the header has a new witness of the base, and state 1
 *
 * A kill or power cut leaves state 3, with which the command begins again. Granules that it finds
 * in the map are still in the file, so that it copies the same bytes.
 */
#ifndef ENGINE_LAYER_LAYER_COMMIT_H
#define ENGINE_LAYER_LAYER_COMMIT_H

#include "engine/layer/layer_rebase.h"

/* Commits the layer `wish->path`. With `wish->force`, also if other layers stand on the base. Sets
 * *given to how many bytes the layer has given. Returns 0; or -errno with *error, a sentence (the
 * caller frees it): the disk of the layer is what it was. */
int
layer_commit(const struct layer_wish *wish, const struct layer_watch *watch, uint64_t *given,
	     char **error);

#endif
