/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An image: a window of a backing file or block device, what it can do, and the pool of I/O
 * contexts that reach it.  Any thread may use an image, except where it says otherwise.
 */
#ifndef ENGINE_IMAGE_IMAGE_H
#define ENGINE_IMAGE_IMAGE_H

#include "engine/backing/backing.h"
#include "engine/counters.h"
#include "engine/image_config.h"

#include <stdbool.h>
#include <stdint.h>

struct image;

/*
 * Opens an image, chooses its engine and proves what can be proved, so that the user sees what is
 * wrong; makes no ring and no thread yet (call it before a fork, use it after).  `flags` are
 * BACKING_*.  Warnings go to the log.  `config` is copied.  Returns 0, or -errno with *error a
 * sentence that names the thing and the way out (caller frees).
 */
int
image_open(int dirfd, const char *path, unsigned int flags, const struct image_config *config,
	   struct image **image, char **error);

/* No operation may be under way and no context taken. NULL is fine. */
void
image_close(struct image *image);

/* Whether both have the same file or device behind them. */
bool
image_same(const struct image *a, const struct image *b);

/* Whether they even have something of it in common, as far as locks go. */
bool
image_meets(const struct image *a, const struct image *b);

/* Takes the lock that the configuration asks for, for good; again with a stronger wish is fine.
 * Looks at the size again, since nobody kept others from changing it until now.  Errors as
 * lock_take(); a weaker lock that was taken before stands then. */
int
image_lock(struct image *image, bool writable, char **error);

/* Whether image_lock() would succeed now. */
int
image_lock_check(struct image *image, bool writable, char **error);

/* What clients are told. */
uint64_t
image_size(const struct image *image); /* bytes, a multiple of the sector size */
unsigned int
image_sector_size(const struct image *image); /* bytes, a power of 2: 1, or 512 to 4096 */
bool
image_writable(const struct image *image);
bool
image_discards(const struct image *image); /* discard=on */
bool
image_direct(const struct image *image); /* direct I/O is on now */
bool
image_has_holes(const struct image *image); /* extents_visit() can find holes: it is a file */
bool
image_rotational(const struct image *image); /* the kernel says so of the device below */

/*
 * Switches direct I/O while clients are connected: lets writes under way finish and holds new ones
 * up meanwhile; before it is switched on, what is buffered is written back and dropped. Returns 0,
 * or -errno with *error (caller frees): not possible by the loop driver's rule, or writing back
 * failed.
 */
int
image_set_direct(struct image *image, bool on, char **error);

/* Takes up the present size of the file or device.  Returns 0, or -errno with *error. */
int
image_resize(struct image *image, char **error);

/* Tells the kernel that a range will be read soon; without effect with direct I/O. 0 or -errno. */
int
image_cache(struct image *image, uint64_t offset, uint64_t length);

/* Bytes that the buffers of one context take, at most. */
uint64_t
image_context_memory(const struct image *image);

/* What a status shows. Pointers stay valid as long as the image, texts in arrays are copies. */
struct image_status {
	const char *path;
	uint64_t size, offset, sizelimit; /* bytes; sizelimit 0: to the end of the file */
	dev_t device;                     /* what holds the file; of a block device: itself */
	ino_t inode;                      /* 0: a block device */
	unsigned int sector_size;
	bool writable;
	const char *engine;             /* "io_uring", ... */
	char engine_reason[REASON_MAX]; /* why not a better one, or "" */
	bool direct;
	char direct_reason[REASON_MAX];          /* why it is off, or "" */
	unsigned int direct_align, memory_align; /* bytes; 0 when direct I/O isn't possible */
	bool poll;
	char poll_reason[REASON_MAX]; /* why it is off, or "" */
	bool discard;
	const char *lock; /* "exclusive", "shared", "off", "not taken yet" */
	unsigned int contexts, depth;
	bool registered_buffers; /* in all contexts, at least for requests of one chunk */
	uint64_t counters[COUNTERS];
};

void
image_status(struct image *image, struct image_status *status);

/* The start-up line: what runs, and why not something better; *degraded tells whether there is
 * something better that the user didn't turn off.  Caller frees; NULL: out of memory. */
char *
image_summary(struct image *image, bool *degraded);

#endif
