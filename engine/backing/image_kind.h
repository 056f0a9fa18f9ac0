/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A kind of images, as programs see it that have only an image's name: facts, without a library.
 * kind.h has the functions of an open image.
 */
#ifndef ENGINE_BACKING_IMAGE_KIND_H
#define ENGINE_BACKING_IMAGE_KIND_H

#include <stdbool.h>

struct image_kind {
	const char *name;        /* in the status, as the method of its own snapshots */
	const char *one;         /* "an image in Ceph", for messages */
	const char *all;         /* "images in Ceph (rbd:POOL/IMAGE)", the same */
	const char *prefixes[2]; /* of the images' names, or NULL; both NULL: all other names,
				    which are paths */
	const char *library; /* "Ceph's library", or a program: moves the bytes. It takes memory as
				 it likes, so there is no swap space. NULL: the kernel moves them */
	bool unconfined;     /* the library opens files and makes system calls of this process as it
				 likes, so there is no sandbox */
	const char *helper;  /* the program that a sandboxed process can't start any more, unless
				 backing_prepare() has; NULL: none */
	/* Names of the options that are for this kind alone. NULL follows the last one. */
	const char *const *options;
	const char *option_from[2]; /* an option, and the environment variable that is meant
				       without it */

	/* Of an image that servers of other machines may have, too, with a lock that it has by
	 * itself: options of a device's server, which has it for itself, and comes after another
	 * one, whose name the value of `.fence` is. NULL: it is of this machine. */
	const char *lock, *fence;
};

#endif
