/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Landlock (Linux 5.13): a thread, and those that it starts, can open only what a list of grants
 * allows. The C library has no functions for it: see Documentation/userspace-api/landlock.rst of
 * the kernel.
 */
#ifndef SERVER_SANDBOX_LANDLOCK_H
#define SERVER_SANDBOX_LANDLOCK_H

/* What may be done with a file or device, or with all below a directory. */
enum grant_use {
	GRANT_ASK,    /* ask the driver of a device, without its contents */
	GRANT_NAMES,  /* make sockets, and remove files */
	GRANT_READ,   /* read files, list directories */
	GRANT_WRITE,  /* the same, and write to files and devices that are there */
	GRANT_CHANGE, /* the same, and make and remove files */
};

/* Returns the version of the kernel's interface, at least 1; or -errno: -ENOSYS or -EOPNOTSUPP if
 * the kernel has none, or has it turned off. */
int
landlock_version(void);

/* Makes an empty list for that version. Returns a descriptor, or -errno. */
int
landlock_new(int version);

/* Adds a path. One that does not exist is left out. Returns 0 or -errno. */
int
landlock_add(int list, int version, const char *path, enum grant_use use);

/* Confines the calling thread to the grants of the list. It has no new privileges already (see
 * PR_SET_NO_NEW_PRIVS). Returns 0 or -errno. */
int
landlock_enter(int list);

#endif
