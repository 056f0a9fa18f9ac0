/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An image, on this side: the file or block device itself, not the name that it once had.  Names
 * change hands: a backup is moved there, a package replaces a file, a link is set to something
 * else.
 */
#ifndef TOOL_DEVICE_IMAGE_FILE_H
#define TOOL_DEVICE_IMAGE_FILE_H

#include <json-glib/json-glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* The absolute path of an image as the user named it: a file or a block device.  Caller frees; NULL
 * with an error. */
char *
image_file_find(const char *image, GError **error);

/* Opens it, only to hold it: it stays what it is, and is not gone when its name is.  The caller
 * closes it; -1 with an error. */
int
image_file_hold(const char *path, GError **error);

/* Its size in bytes, `st` being what stat() says of it; 0 if that can't be told. */
uint64_t
image_file_size(const char *path, const struct stat *st);

/* A path in /proc that leads to what `held` (see above) is, as long as this process holds it, and
 * to nothing else, whoever has its name.  Caller frees. */
char *
image_file_path(int held);

/* Whether `path` leads to what `held` is. */
bool
image_file_is_named(const char *path, int held);

/* What to call it, for a path that a server has been given: that of a file held here is the one
 * that it has now, as the kernel tells it ("/srv/disk.img (deleted)").  Caller frees. */
char *
image_file_name(const char *path);

/* The same by the path and numbers (see image_file_is()) that a server tells of itself, process
 * `pid`: who held the image for it may be gone.  Caller frees. */
char *
image_file_served(const char *path, const char *device, gint64 inode, pid_t pid);

/* The same by all that a server tells of itself; NULL: it tells of no image, or `status` is NULL.
 */
char *
image_file_of_server(JsonObject *status);

/* Whether an image is the one of a server's export, as it tells that. */
bool
image_file_is_export(const struct stat *st, JsonObject *export);

/* The numbers by which an image is known again, `st` being what stat() says of it: those of the
 * file system and the inode, or of the block device and 0. */
dev_t
image_file_device(const struct stat *st);
ino_t
image_file_inode(const struct stat *st);

/* Whether an image is that file or block device, by the numbers that its server tells:
 * "MAJOR:MINOR", of the file system for a file, and the inode, 0 for a block device. */
bool
image_file_is(const struct stat *st, const char *device, gint64 inode);

/* A path in /proc that leads to that image, opened by a process; NULL: it hasn't it open, or that
 * isn't for us to see.  Caller frees. */
char *
image_file_opened_by(pid_t pid, const char *device, gint64 inode);

#endif
