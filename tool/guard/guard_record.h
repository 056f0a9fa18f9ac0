/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A file that a guard writes so that another process can take its place if the guard is killed.
 * The guard holds a lock on the file while it is alive, so any process that may read the file can
 * see whether the device has a guard.
 */
#ifndef TOOL_GUARD_GUARD_RECORD_H
#define TOOL_GUARD_GUARD_RECORD_H

#include "tool/device/device.h"
#include "tool/device/image_file.h"
#include "tool/guard/guard_plan.h"

struct guard_record {
	char *path;  /* NULL: there is none */
	int fd;      /* holds the lock, which is lost when any descriptor of the file is closed */
	size_t size; /* bytes, of the last write */
};

/* The facts that change while a device is attached; guard_record_write() borrows the strings. */
struct guard_progress {
	char *place;                 /* of the image, which may have been changed or renamed */
	struct image_identity image; /* .device 0: it is a URI */
	const char *direct_io;       /* "on", "off", "auto": of the next server */
	const char *iops_limit, *bandwidth_limit; /* the same; NULL: none */
	bool read_only;                           /* the same */
	char *ceph_fence;                         /* the same: source->ceph_fence */
	/* Of a remote export: the URI of the server that is in use, or was when the connections
	 * ended, and what it told when the device was attached. */
	char *server;
	uint16_t flags;
	char *misfits;   /* what keeps other servers from taking the device over; or NULL */
	const char *tls; /* of the connections: "1.3 AES-128-GCM kernel", or "... proxy"; "": none
			  */
};

/*
 * Creates the record of the device that this process is about to attach; `control` is the path of
 * its server's control socket, or NULL.  EEXIST: an attached device has the files of a guard that
 * was killed, and had the process ID of this process.
 */
bool
guard_record_make(struct guard_record *record, const char *control, GError **error);

/* Replaces the content as a whole, or not at all. */
bool
guard_record_write(struct guard_record *record, const struct guard_plan *plan,
		   const struct guard_progress *progress, GError **error);

/*
 * Takes the place of a device's guard: its lock, and its plan and progress, which
 * guard_plan_fini() and guard_progress_fini() free.  Errors: EBUSY, the guard is alive, or another
 * one has taken its place; ENOENT, there is no record.
 */
bool
guard_record_take(struct guard_record *record, const struct device *device, struct guard_plan *plan,
		  struct guard_progress *progress, GError **error);
void
guard_progress_fini(struct guard_progress *progress);

/* Reads what the guard of a device has written, and takes nothing.  The same functions free plan
 * and progress. */
bool
guard_record_read(const struct device *device, struct guard_plan *plan,
		  struct guard_progress *progress, GError **error);

/* Releases the lock and removes the file. */
void
guard_record_close(struct guard_record *record);

/* Releases the lock, and leaves the file for the next guard. */
void
guard_record_leave(struct guard_record *record);

/* Removes the files that the guard of a detached device may have left: record and socket. */
void
guard_record_forget(const struct device *device);

/* The process ID of a device's guard; 0: the guard was killed; -1: unknown, or no device of ours.
 */
pid_t
guard_record_keeper(const struct device *device);

#endif
