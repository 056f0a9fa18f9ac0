/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A witness tells what an image was like at one time, so that a later one can tell whether somebody
 * has written to it meanwhile.
 *
 * A file has times: each write sets them. A block device has none; the kernel counts the sectors
 * that are written to it, from its start on. A layer (engine/layer/layer.h) has the number of the
 * last opening in which it was changed: its server also writes to the file without a change.
 */
#ifndef ENGINE_CHANGES_WITNESS_H
#define ENGINE_CHANGES_WITNESS_H

#include "engine/backing/backing.h"

#include <stdbool.h>
#include <stdint.h>

/* After a server was killed, the image may have been changed by the server itself, as long as this
 * after the last witness, in seconds. So a change by another program in this time is not noticed.
 */
#define WITNESS_TRUST 15

#define WITNESS_BOOT  40

struct witness {
	char boot[WITNESS_BOOT]; /* boot id of the kernel; "": not known */
	uint32_t kind;           /* 1: file, 2: block device, 3: layer */
	uint64_t device;         /* st_dev of a file, st_rdev of a block device */
	uint64_t inode;          /* file */
	uint64_t birth;    /* file: when it was made, nanoseconds since 1970, 0: not known; block
			     device: number of the disk in this boot (diskseq) */
	uint64_t size;     /* of the file or block device, in bytes */
	uint64_t offset;   /* of the image in it */
	uint64_t window;   /* size of the image */
	int64_t changed;   /* file: st_ctim, nanoseconds since 1970; block device: sectors written;
			     layer: this opening, or that of the last change if it is open for
			     reading */
	int64_t modified;  /* file: st_mtim; block device: sectors discarded; layer: the opening of
			     the last change before this opening */
	int64_t seen;      /* when it was taken: nanoseconds since 1970 */
	int64_t seen_boot; /* the same since the boot */
	bool remote; /* file: its times are of the clocks of other machines; not in a record */
};

/* Takes the witness of an image, which is `window` bytes at `offset`. May wait for the file system.
 * Returns 0 or -errno. */
int
witness_take(struct witness *witness, const struct backing *backing, uint64_t offset,
	     uint64_t window);

/* Returns whether both were taken under the same run of the kernel. */
bool
witness_same_boot(const struct witness *a, const struct witness *b);

/* Returns whether both are of the same image, whatever has happened to it. If not, `reason` says
 * why, for "...: take a full backup". */
bool
witness_is_of_image(const struct witness *then, const struct witness *now, char reason[REASON_MAX]);

/* Returns whether nobody has changed the image between the two, of the same image in one run of the
 * kernel. */
bool
witness_is_untouched(const struct witness *then, const struct witness *now);

/*
 * Returns whether nobody but a server that kept the record has changed the image between the two.
 * `closed`: it ended in order, `then`, and has changed nothing since. Otherwise it was killed, or
 * the machine was, not long after `then`. If not, `reason` says why, for "...: take a full backup".
 */
bool
witness_agrees(const struct witness *then, const struct witness *now, bool closed,
	       char reason[REASON_MAX]);

#endif
