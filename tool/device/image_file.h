/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An image, in the tool: the file or block device itself, not the name that it once had.  A name
 * can come to lead to another file: a backup is moved there, a package replaces the file, a link
 * is changed.
 */
#ifndef TOOL_DEVICE_IMAGE_FILE_H
#define TOOL_DEVICE_IMAGE_FILE_H

#include <glib.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* The numbers by which an image is known again: of its file system, and its inode; or of the block
 * device, and 0. */
struct image_identity {
	dev_t device; /* 0: unknown, which no image has */
	ino_t inode;
};

/* Whether an image's name is a path of this machine, and not only a name, as rbd:POOL/IMAGE is. */
bool
image_file_is_here(const char *image);

/* The absolute path of an image as the user named it: a file or a block device; of one in Ceph, its
 * name.  Caller frees; NULL with an error. */
char *
image_file_find(const char *image, GError **error);

/* Opens the image only to hold it: it remains reachable when its name is gone.  The caller closes
 * it; -1 with an error. */
int
image_file_hold(const char *path, GError **error);

/* Its size in bytes, where `st` is from stat(); 0 if unknown. */
uint64_t
image_file_size(const char *path, const struct stat *st);

/* Whether no other program has the file open to write to it: none of our servers, nor QEMU, whose
 * locks tell it.  False with an error (EBUSY); a file that isn't there, or can't be read, has none.
 */
bool
image_file_has_no_writer(const char *path, GError **error);

/* A path in /proc that leads to the image open as `held` (see above), whatever has its name, as
 * long as this process holds it.  Caller frees. */
char *
image_file_path(int held);

/* Whether `path` leads to the image open as `held`. */
bool
image_file_is_named(const char *path, int held);

/* The image's name for people, from the path that a server was given: a path of image_file_path()
 * becomes the file's current one, as the kernel reports it ("/srv/disk.img (deleted)"). Caller
 * frees. */
char *
image_file_name(const char *path);

/* The same by the path and numbers that a server, process `pid`, tells: the process that held the
 * image for it may be gone.  Caller frees. */
char *
image_file_served(const char *path, const struct image_identity *image, pid_t pid);

/* The same by a server's status; NULL: it tells of no image, or `status` is NULL. */
char *
image_file_of_server(json_t *status);

struct image_identity
image_file_identity(const struct stat *st);

/* Whether a file or block device is that image. */
bool
image_file_is(const struct stat *st, const struct image_identity *image);

/* Whether it is the image of a server's export, by the numbers that the server tells. */
bool
image_file_is_export(const struct stat *st, json_t *export);

/* Whether two exports of a server have bytes of the same image in common. */
bool
image_file_is_of_both(json_t *export, json_t *other);

/* A path in /proc that leads to that image, opened by a process; NULL: the process hasn't it open,
 * or that isn't for us to see.  Caller frees. */
char *
image_file_opened_by(pid_t pid, const struct image_identity *image);

#endif
