/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks that keep two programs from writing to one image: open file description locks on the bytes
 * that QEMU uses (block/file-posix.c): byte 100 + i is held by who has permission i, byte 200 + i
 * by who doesn't share it.  Each is a read lock; a conflict is seen by asking for the opposite
 * byte.
 */
#ifndef ENGINE_IMAGE_LOCK_H
#define ENGINE_IMAGE_LOCK_H

#include "engine/image_config.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Of an image.  Servers of this project can have parts of one at the same time that share no page
 * (4096 bytes, or what the machine has) whatever they do with them; to all others, each of them has
 * the whole.
 */
struct lock_part {
	uint64_t start, end; /* bytes; end UINT64_MAX: all the rest */
};

/*
 * Takes the lock for `choice` on the file that `fd` (kept open by the caller) belongs to; it lasts
 * until that open file description is closed.  Returns 0, or -EAGAIN (somebody holds a lock that
 * excludes ours) or another -errno (no locks there) with *error a sentence that begins with `path`
 * and names the holder if it can be found (caller frees).  On failure no lock is left.
 */
int
lock_take(int fd, const char *path, enum lock_choice choice, const struct lock_part *part,
	  bool writable, char **error);

/*
 * Makes a writer's lock of the reader's that lock_take() took with the same choice and part.  It
 * holds both until it has the new one: on failure, which is told in the same way, the reader's
 * still stands and was never let go.
 */
int
lock_upgrade(int fd, const char *path, enum lock_choice choice, const struct lock_part *part,
	     char **error);

/* The same question as lock_take() asks, without taking anything; of a part it may say that it is
 * free where lock_take() finds somebody. */
int
lock_check(int fd, const char *path, enum lock_choice choice, const struct lock_part *part,
	   bool writable, char **error);

/* Gives the lock back. */
void
lock_drop(int fd);

/* Whether a process that can be looked at has a lock on the file of `fd`, this one included. */
bool
lock_is_held(int fd);

/* Whether two parts of one image share a page. */
bool
lock_parts_meet(const struct lock_part *a, const struct lock_part *b);

/* "exclusive", "shared" or "off": what `choice` means. */
const char *
lock_name(enum lock_choice choice, bool writable);

#endif
