/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Holds a base as it is while layers stand on it. Locks keep programs away that respect them; a
 * block device is claimed in the way of file systems, so that nothing mounts it. Other uses by the
 * kernel, and programs that ignore locks, can only be looked for.
 *
 * Of several servers with layers on the same block device, one has the claim.
 */
#ifndef ENGINE_LAYER_LAYER_HOLD_H
#define ENGINE_LAYER_LAYER_HOLD_H

#include "engine/image_config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct layer_wish {
	const char *path;      /* of the topmost layer, for messages */
	const char *base_path; /* directories in which bases may lie, too, separated by colons, or
				  NULL */
	bool force;            /* also if the kernel may write to a base */
	bool changed_base;     /* also if a base has changed */
	enum lock_choice lock; /* of bases: LOCK_OFF takes none */
	bool commit;           /* also if a commit into its base was interrupted */
};

struct layer_hold {
	bool begun;       /* false: nothing is held, and there is nothing else here */
	int claim;        /* a descriptor that claims the block device; -1: none */
	bool raw;         /* the base is no layer */
	bool used;        /* it may have been written to all the time (force=on) */
	uint64_t size;    /* of a file, in bytes; as when it was opened */
	int64_t modified; /* st_mtim of a file, in nanoseconds since 1970; likewise */
};

/* Begins to hold the base of `layer`, open as `fd`. `path` is the base's name in messages. May wait
 * for a server that was killed. Returns 0 and the caller ends it with layer_hold_end(), or -errno
 * with *error, a sentence (the caller frees it). */
int
layer_hold_begin(struct layer_hold *hold, int fd, bool raw, const char *layer, const char *path,
		 const struct layer_wish *wish, char **error);

/* Sets `trouble`, a text of at most `room` bytes with its NUL: what may have changed the base since
 * then; else "". */
void
layer_hold_look(const struct layer_hold *hold, int fd, const char *path, char *trouble,
		size_t room);

/* Releases lock and claim, if the hold was begun; `fd` stays open. */
void
layer_hold_end(struct layer_hold *hold, int fd);

#endif
