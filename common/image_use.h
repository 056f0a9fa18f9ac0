/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds the uses of an image by the kernel of this machine: swap space, loop devices made of it
 * and, if it is a block device, mounts, and devices that it is a part of. None of them respects
 * locks. Programs that have the image open are not found.
 */
#ifndef COMMON_IMAGE_USE_H
#define COMMON_IMAGE_USE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A part of an image. */
struct image_part {
	dev_t device;         /* st_dev of a file, st_rdev of a block device */
	ino_t inode;          /* 0: a block device */
	uint64_t offset, end; /* in bytes; end UINT64_MAX: up to the end of the image */
};

/* Size of the text, in bytes, with its NUL. Longer texts are cut. */
#define IMAGE_USE_TEXT 512

struct image_use {
	char text[IMAGE_USE_TEXT]; /* "/dev/loop0 is made of it, and is mounted on /mnt" */
	char device[64]; /* "loop0"; "": the image itself is used, not a loop device made of it */
	bool writes;     /* it may write to the part */
	bool held; /* it is mounted, swap space or part of another device, so the image must not
		      change */
};

/*
 * Returns whether the kernel uses the part, and how. If there are several uses, finds one that
 * writes, or else one that holds the part. `root` is "", or a directory with the recorded sys and
 * proc of a machine. Does not find a use that this process may not look at.
 */
bool
image_use_find(const char *root, const struct image_part *part, struct image_use *use);

#endif
