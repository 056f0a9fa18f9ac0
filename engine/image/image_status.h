/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The status of an image: what was chosen for it, and why nothing better is possible; as a
 * structure, as a line of text, and as JSON.
 */
#ifndef ENGINE_IMAGE_IMAGE_STATUS_H
#define ENGINE_IMAGE_IMAGE_STATUS_H

#include "engine/backing/backing.h"
#include "engine/counters.h"
#include "engine/image/image.h"

#include "common/json.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The status of an image. Pointers stay valid as long as the image; texts in arrays are copies. */
struct image_status {
	const char *path;
	const struct backing *backing;
	uint64_t size, offset, sizelimit; /* in bytes; sizelimit 0: up to the end of the file */
	dev_t device; /* the device of the file's file system, or the block device itself */
	ino_t inode;  /* 0 for a block device */
	unsigned int sector_size;
	const char *format; /* what the image looked like when it was opened, such as "qcow2";
			       NULL: raw, or unknown */
	bool writable;
	char read_only_reason[REASON_MAX]; /* why the file can't be written to, or "": it can, or
					      nobody wanted that */
	const char *engine;                /* "io_uring", ... */
	char engine_reason[REASON_MAX];    /* why no better engine is used, or "" */
	bool direct;
	char direct_reason[REASON_MAX];          /* why it is off, or "" */
	unsigned int direct_align, memory_align; /* in bytes; 0 if direct I/O is not possible */
	const char *page_cache;                  /* what becomes of pages: "keep" or "drop" */
	char page_cache_reason[REASON_MAX]; /* why it has no effect now, or why drop goes without
					       RWF_DONTCACHE, or "" */
	bool poll;
	char poll_reason[REASON_MAX]; /* why it is off, or "" */
	bool discard;
	const char *lock; /* "exclusive", "shared", "off", "not taken yet" */
	unsigned int contexts, depth;
	bool registered_buffers;       /* all contexts register the memory of their requests */
	const char *registered_reason; /* why not all memory of all contexts is, or "" */
	uint64_t counters[COUNTERS];
};

/* Fills in the status. Never waits for I/O. */
void
image_status(struct image *image, struct image_status *status);

/* Returns the start-up line: the choices for this image, and why better ones are not possible. Sets
 * *degraded to whether there is a better choice that the user did not turn off. The caller frees
 * the line; NULL: no memory. */
char *
image_summary(struct image *image, bool *degraded);

/* Writes the status as members of an object that the caller has begun. `file` is the path to show.
 */
void
json_image(struct json *json, const char *file, const struct image_status *status);

#endif
