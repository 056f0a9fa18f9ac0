/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An image: a window of a backing file or block device, its abilities, and the pool of its I/O
 * contexts. Any thread may use an image, except where a comment says otherwise.
 */
#ifndef ENGINE_IMAGE_IMAGE_H
#define ENGINE_IMAGE_IMAGE_H

#include "engine/backing/backing.h"
#include "engine/image_config.h"

#include <stdbool.h>
#include <stdint.h>

struct image;

/*
 * Opens an image, chooses its engine, and tests as much as it can, so that the user sees what is
 * wrong. Makes no ring and no thread yet, so a program can call it before a fork and use the image
 * after that, if image_survives_fork(). `path` is relative to `dirfd` (AT_FDCWD is allowed),
 * `flags` are BACKING_*, and `config` is copied. Warnings go to the log. Returns 0 with *image,
 * which the caller closes with image_close(), or -errno with *error, a sentence that names the
 * cause and the way out (the caller frees it; NULL if there was no memory).
 */
int
image_open(int dirfd, const char *path, unsigned int flags, const struct image_config *config,
	   struct image **image, char **error);

/* The same for a backing that is open already. The image takes the backing over, which is closed
 * after a failure. */
int
image_open_backing(struct backing *backing, const struct image_config *config, struct image **image,
		   char **error);

/* Closes the image and releases its lock. No operation may be in flight, and no context taken. NULL
 * is allowed. */
void
image_close(struct image *image);

/* Returns whether both images have the same file or device as their backing. */
bool
image_same(const struct image *a, const struct image *b);

/* Returns whether, in addition, their windows share a page, so that their locks conflict. */
bool
image_meets(const struct image *a, const struct image *b);

/* Takes the lock that the configuration asks for, and keeps it until the image is closed. May be
 * called again, also to make a reader's lock a writer's. With the first lock, reads the file's size
 * again, because until then others could change it. Returns 0, or the errors of lock_take() and
 * claim_take() with *error (the caller frees it); a weaker lock that was taken before then stays.
 */
int
image_lock(struct image *image, bool writable, char **error);

/* Tests whether image_lock() would succeed now, without taking a lock. Returns 0, or the errors of
 * lock_take() with *error (the caller frees it). */
int
image_lock_check(struct image *image, bool writable, char **error);

/* Makes all changes that were acknowledged durable, as a client's flush does. Waits for the disk.
 * Returns 0, or -errno: some may be lost, also by an earlier failure. Not for an image in Ceph. */
int
image_sync(struct image *image);

/* The facts that clients are told. */
uint64_t
image_size(const struct image *image); /* in bytes, a multiple of image_min_block() */
uint64_t
image_start(const struct image *image); /* where the image begins in its file, in bytes */
uint64_t
image_offset(const struct image *image); /* the same, on the disk that the file holds: offset= */
unsigned int
image_min_block(const struct image *image); /* in bytes, a power of 2: 1, or 512 to 4096 */
bool
image_writable(const struct image *image);
bool
image_is_temporary(const struct image *image); /* what is written is thrown away at the end */
bool
image_others_may_write(const struct image *image); /* the lock lets other servers change the image,
						      which this one does not see */
bool
image_discards(const struct image *image); /* discard=on */
bool
image_direct(const struct image *image); /* whether direct I/O is on now */
bool
image_fills_cache(const struct image *image); /* image_cache() has an effect now */
bool
image_has_holes(const struct image *image); /* extents_visit() can find holes */
bool
image_is_fenced(const struct image *image); /* another server may have the image: every operation
					       fails with -ESHUTDOWN */
/* This server ends: operations that wait for another one to give the image up fail with -ESHUTDOWN.
 * Never waits. */
void
image_stop_waiting(struct image *image);
bool
image_may_be_left(const struct image *image); /* the process may end during operations: another
						 server keeps their ends from the image */
bool
image_survives_fork(const struct image *image); /* a child of this process can use it, and requests
						   need no new memory */
bool
image_rotational(const struct image *image); /* as the kernel says of the device below */

/*
 * Switches direct I/O while clients are connected. Waits until the writes in flight are complete,
 * and holds new ones up meanwhile. Before direct I/O is switched on, buffered data is written back
 * and dropped. Returns 0, or -errno with *error (the caller frees it) if direct I/O is not possible
 * by the loop driver's rule, or if the write-back failed.
 */
int
image_set_direct(struct image *image, bool on, char **error);

/* Adopts the current size of the file or device. Returns 0, or -errno with *error (the caller frees
 * it). */
int
image_resize(struct image *image, char **error);

/*
 * Has `resized` called, on another thread that may wait, when others have changed the size of the
 * backing, and this machine is told of that: for an image in Ceph that is writable. `shrunk`: the
 * backing was smaller meanwhile, so that it has lost bytes. The function calls image_adopt_size(),
 * and returns true; or false, and is called again a moment later. To be called once.
 */
void
image_follow_size(struct image *image, bool (*resized)(void *data, bool shrunk), void *data);

/* Ends that: waits for a call that is under way, and none comes any more. image_close() does it,
 * too; it is for a caller whose `data` ends before. May be called again. */
void
image_unfollow_size(struct image *image);

/* Adopts the size that others have given the backing, and logs that. Returns false after an error,
 * which is in the log, too. */
bool
image_adopt_size(struct image *image);

struct image_look {
	bool resized;        /* image_adopt_size() has something to do */
	bool writable_again; /* the image is read-only only because it could not be opened for
				writing, and now it could be; opening it again takes it over */
};

/*
 * Looks at what may have changed about the image's file since it was opened, without a word to this
 * process: whether the path leads to another file, whether the kernel still lets us write, and the
 * size. Logs each trouble once, and again if it is asked to, and its end. May wait for the file
 * system. Does nothing for an image that image_follow_size() is for.
 */
void
image_look(struct image *image, bool again, struct image_look *look);

/* Returns whether image_look() may find anything. */
bool
image_is_looked_at(const struct image *image);

/* Tells the kernel that the range of `length` bytes at `offset` of the image will be read soon. Has
 * no effect with direct I/O or page-cache=drop. Returns 0 or -errno. */
int
image_cache(struct image *image, uint64_t offset, uint64_t length);

/* Returns how many bytes the buffers of one context take at most. */
uint64_t
image_context_memory(const struct image *image);

#endif
