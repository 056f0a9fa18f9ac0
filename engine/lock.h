/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks that keep two programs from writing to one image: open file description locks on the bytes
 * that QEMU uses (block/file-posix.c): byte 100 + i is held by who has permission i, byte 200 + i by
 * who doesn't share it.  Each is a read lock; a conflict is seen by asking for the opposite byte.
 */
#ifndef ENGINE_LOCK_H
#define ENGINE_LOCK_H

#include "engine/config.h"

#include <stdbool.h>

/*
 * Takes the lock for `choice` on the file that `fd` (kept open by the caller) belongs to; it lasts
 * until that open file description is closed.  Returns 0, or -EAGAIN (somebody holds a lock that
 * excludes ours) or another -errno (no locks there) with *error a sentence that begins with `path`
 * and names the holder if it can be found (caller frees).  On failure no lock is left.
 */
int
lock_take(int fd, const char *path, enum lock_choice choice, bool writable, char **error);

/* The same question without taking anything. */
int
lock_check(int fd, const char *path, enum lock_choice choice, bool writable, char **error);

/* Gives the lock back. */
void
lock_drop(int fd);

/* "exclusive", "shared" or "off": what `choice` means. */
const char *
lock_name(enum lock_choice choice, bool writable);

#endif
