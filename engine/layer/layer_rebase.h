/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gives a layer another base, or none, and keeps its disk as it is: each granule that would differ
 * is taken into the layer first. No server may have the layer.
 *
 *	both chains are open, and locked against writers
 *	-> granules that the layer lacks, and that differ, come into it as a server's writes do: the
 *	   disk is the same on the old base after each of them
 *	-> all of them are in the stable map
 *	-> the header names the new base, on which the disk is the same, too
 *
 * A kill or power cut before the last step leaves the old base. The command can be run again.
 */
#ifndef ENGINE_LAYER_LAYER_REBASE_H
#define ENGINE_LAYER_LAYER_REBASE_H

#include "engine/layer/layer.h"

#include <stdint.h>

/* What a long command on layers tells, and is asked, from time to time. */
struct layer_watch {
	/* Bytes of the disk that are done with. Returns 0, or -errno to end the command. */
	int (*step)(void *data, uint64_t done, uint64_t total);
	void *data;
};

/* Makes `base` the base of the layer `wish->path`; NULL: it needs none. With `wish->force`, nothing
 * is compared, and the old base is not needed. Sets *taken to how many bytes came into the layer.
 * Returns 0; or -errno with *error, a sentence (the caller frees it): the disk is what it was, and
 * the header names the old base. */
int
layer_rebase(const struct layer_wish *wish, const char *base, const struct layer_watch *watch,
	     uint64_t *taken, char **error);

#endif
