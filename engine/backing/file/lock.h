/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locks that keep two programs from writing to one image. They are open file description locks on
 * the bytes that QEMU uses (common/image_lock.h); a program detects a conflict by asking for a lock
 * on the opposite byte.
 */
#ifndef ENGINE_BACKING_FILE_LOCK_H
#define ENGINE_BACKING_FILE_LOCK_H

#include "engine/backing/backing.h"
#include "engine/image_config.h"

/* How long, in milliseconds, a killed server may keep its locks and its claim until the kernel has
 * completed its last request, and how often to look for that. */
#define LOCK_LINGER_MS      10000
#define LOCK_LINGER_STEP_MS 20

/*
 * Takes the lock for `choice` on the file of `fd`, until that open file description is closed.
 * Returns 0, -EAGAIN if another program holds a lock that excludes ours, or another -errno if locks
 * are not possible there. *error is then a sentence that begins with `path` and names the holder if
 * it can be found (the caller frees it). On failure no lock is left.
 *
 * `locked`, which needs `writable`: `fd` has the reader's lock of the same choice and part, which
 * becomes a writer's, without a moment between them. On failure, the reader's lock still stands.
 */
int
lock_take(int fd, const char *path, enum lock_choice choice, const struct lock_part *part,
	  bool writable, bool locked, char **error);

/* Takes the exclusive lock of a command that works on the file while nobody else does. Otherwise as
 * lock_take(). */
int
lock_take_alone(int fd, const char *path, bool locked, char **error);

/* Returns whether no program has a lock that excludes lock_take_alone(). Does not wait for one that
 * was killed. */
bool
lock_is_free(int fd);

/*
 * Takes a lock for `choice` on another descriptor of a file on which lock_take() is used. It keeps
 * nobody away, and may be taken again. But the client of a network file system fails only the
 * requests of descriptors whose own locks it has lost, so each descriptor that moves data needs
 * one. Returns 0, or -errno with *error, as lock_take().
 */
int
lock_take_along(int fd, const char *path, enum lock_choice choice, bool writable, char **error);

/* Makes the same checks as lock_take() and returns the same errors, but takes no lock. It may call
 * a part of an image free for which lock_take() then finds another holder. */
int
lock_check(int fd, const char *path, enum lock_choice choice, const struct lock_part *part,
	   bool writable, char **error);

/* Releases the lock. */
void
lock_drop(int fd);

/* Returns whether any process that we may look at, including this one, has a lock on the file of
 * `fd`. */
bool
lock_is_held(int fd);

#endif
