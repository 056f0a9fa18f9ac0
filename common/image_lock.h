/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of an image that QEMU locks (block/file-posix.c), and so our servers. A program that
 * has a permission locks byte IMAGE_LOCK_HELD plus the permission's number; one that doesn't share
 * it locks byte IMAGE_LOCK_UNSHARED plus that number. All are read locks of open file descriptions.
 */
#ifndef COMMON_IMAGE_LOCK_H
#define COMMON_IMAGE_LOCK_H

#define IMAGE_LOCK_HELD     100
#define IMAGE_LOCK_UNSHARED 200

/* Permissions, by the numbers of their bits. */
enum {
	IMAGE_LOCK_CONSISTENT_READ,
	IMAGE_LOCK_WRITE,
	IMAGE_LOCK_WRITE_UNCHANGED,
	IMAGE_LOCK_RESIZE,
	IMAGE_LOCK_PERMISSIONS, /* their count */
};

#endif
