/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the kernel of this machine makes of an image already: loop devices on it, and if it is a
 * block device, its mounts, swap space, and devices that are made of it.  None of them respects a
 * lock.  It doesn't know who has the image open.
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
	uint64_t offset, end; /* bytes; end UINT64_MAX: all the rest */
};

/* Longest text, with its NUL; what doesn't fit is cut off. */
#define IMAGE_USE_TEXT 512

struct image_use {
	char text[IMAGE_USE_TEXT]; /* "/dev/loop0 is made of it, and is mounted on /mnt" */
	char device[64]; /* "loop0"; "": the image itself is used, not a loop device on it */
	bool writes;     /* may write to the part */
	bool held; /* mounted, swapped to or part of something: what it has read must not change */
};

/*
 * Whether something uses the part, and what: of several, one that writes, or else one that holds
 * it.  `root` is "", or the directory of a recorded machine with its sys and proc.  Where a user
 * can't be looked at, nothing is found.
 */
bool
image_use_find(const char *root, const struct image_part *part, struct image_use *use);

#endif
