/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an io on a layer (engine/layer/layer.h) needs besides its chunks:
 *
 *	before a change, a granule that it covers only in part is copied from below;
 *	after a change, and before its range is released, the granules that it covers are marked;
 *	a sync is a commit, while marks are not durable.
 *
 * Each of these may wait for a disk. A thread that may wait does them at once. On an event loop,
 * they are gathered for each context and step, and a helper does those that have come meanwhile
 * together.
 */
#ifndef ENGINE_IO_LAYERED_H
#define ENGINE_IO_LAYERED_H

#include <stdbool.h>

struct image;
struct ioctx;
struct layered;

/* Makes the state of an image whose backing is a layer, and has it see each change. Returns NULL
 * without memory. */
struct layered *
layered_new(struct image *image);

/* Commits, and frees the state. No operation may be in flight. NULL is allowed. */
void
layered_free(struct layered *layered);

/* Returns whether all that is written is thrown away at the end: there is nothing to make durable,
 * and FUA and flushes cost nothing. NULL is allowed. */
bool
layered_is_temporary(const struct layered *layered);

/* Makes all that was acknowledged durable. May wait for the disk. Returns 0 or -errno. */
int
layered_commit(struct layered *layered);

/* Frees what a context has for these steps. */
void
layered_fini(struct ioctx *ctx);

#endif
