/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file that a guard writes, so that another process can take its place when it was killed.  The
 * guard holds a lock on the file while it lives: any process that may read the file can see whether
 * the device has a guard.
 */
#ifndef TOOL_GUARD_GUARD_RECORD_H
#define TOOL_GUARD_GUARD_RECORD_H

#include "tool/device/device.h"
#include "tool/guard/guard_plan.h"

#include <sys/stat.h>

struct guard_record {
	char *path;  /* NULL: there is none */
	int fd;      /* holds the lock, which closing any descriptor of the file would drop */
	size_t size; /* bytes, of what was written last */
};

/* The facts that change while a device is attached; guard_record_write() borrows the strings. */
struct guard_progress {
	char *place; /* of the image; it may be another one than at first, and have another name now
		      */
	dev_t device; /* by which, and the inode, it is known again; 0: it is a URI */
	ino_t inode;
	const char *direct_io; /* "on", "off", "auto": of the next server */
	bool read_only;        /* the same */
};

/*
 * Makes the file of the device that this process is about to attach; `control` is the path of its
 * server's control socket, or NULL.  EEXIST: a device that is still attached has its files under
 * this process's ID, from a guard that was killed.
 */
bool
guard_record_make(struct guard_record *record, const char *control, GError **error);

/* The file is what it was before, or all of this. */
bool
guard_record_write(struct guard_record *record, const struct guard_plan *plan,
		   const struct guard_progress *progress, GError **error);

/*
 * Takes the place of a device's guard: the lock, and what that has written, which
 * guard_plan_fini() and guard_progress_fini() free.  Errors: EBUSY, it lives, or another one has
 * taken its place; ENOENT, it has written nothing.
 */
bool
guard_record_take(struct guard_record *record, const struct device *device, struct guard_plan *plan,
		  struct guard_progress *progress, GError **error);
void
guard_progress_fini(struct guard_progress *progress);

/* Gives the lock back and removes the file. */
void
guard_record_close(struct guard_record *record);

/* The same, but the file stays for another one. */
void
guard_record_leave(struct guard_record *record);

/* Removes the file of a device that is gone, and that of its guard's socket, if it was left. */
void
guard_record_forget(const struct device *device);

/* The process ID of a device's guard; 0: it has none any more; -1: that isn't known, or none of
 * ours to have one. */
pid_t
guard_record_keeper(const struct device *device);

#endif
