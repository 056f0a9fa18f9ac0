/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing.h"
#include "engine/direct.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

/* Where and how a backing is opened; the same for each of its descriptors. */
struct place {
	int dirfd;
	const char *path;
	bool beneath;
};

static int
set_error(char **error, int err, const char *path, const char *what)
{
	if (asprintf(error, "%s: %s", path, what ? what : strerror(-err)) < 0)
		*error = NULL;
	return err;
}

/* openat2(2) is Linux 5.6, and some containers forbid it: then no link is followed at all. */
static int
open_beneath(int dirfd, const char *name, int flags)
{
	struct open_how how = {
		.flags = (uint64_t)flags,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	long fd;

	if (name[0] == '\0' || strchr(name, '/') || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return -ENOENT;
	fd = syscall(SYS_openat2, dirfd, name, &how, sizeof(how));
	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		fd = openat(dirfd, name, flags | O_NOFOLLOW);
	return fd < 0 ? -errno : (int)fd;
}

static int
place_open(const struct place *place, int flags)
{
	int fd;

	/* O_NONBLOCK: a FIFO must not hang us before we have seen that it is one.  It goes at once,
	 * since io_uring takes it for a wish to get EAGAIN. */
	flags |= O_CLOEXEC | O_NOCTTY;
	if (place->beneath) {
		fd = open_beneath(place->dirfd, place->path, flags | O_NONBLOCK);
	} else {
		fd = openat(place->dirfd, place->path, flags | O_NONBLOCK);
		fd = fd < 0 ? -errno : fd;
	}
	if (fd >= 0)
		fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
	return fd;
}

/* Opens for writing if that is allowed, else for reading. */
static int
open_buffered(struct backing *backing, const struct place *place, bool read_only)
{
	int fd = read_only ? -EACCES : place_open(place, O_RDWR);

	backing->writable = fd >= 0;
	if (fd == -EACCES || fd == -EROFS || fd == -EPERM || fd == -EISDIR)
		fd = place_open(place, O_RDONLY);
	return fd;
}

/* Swap space aside: what was swapped out is waited for, as any memory is. */
static bool
is_in_memory(int fd)
{
	struct statfs facts;
	uint32_t type;

	if (fstatfs(fd, &facts) < 0)
		return false;
	/* Signed, and of 32 or 64 bits. */
	type = (uint32_t)facts.f_type;
	return type == TMPFS_MAGIC || type == RAMFS_MAGIC;
}

static int
learn_type(struct backing *backing, bool beneath, const char **what)
{
	struct stat st;
	int sector, read_only;

	if (fstat(backing->fd, &st) < 0)
		return -errno;
	backing->inode = st.st_ino;
	backing->device = st.st_dev;
	backing->block_size = 1;
	if (S_ISREG(st.st_mode)) {
		backing->in_memory = is_in_memory(backing->fd);
		return 0;
	}
	*what = S_ISDIR(st.st_mode) ? "is a directory, not an image" : "is not a regular file or a block device";
	if (beneath || !S_ISBLK(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -ENOTBLK;
	*what = NULL;
	backing->block_device = true;
	backing->device = st.st_rdev;
	backing->inode = 0;
	if (ioctl(backing->fd, BLKSSZGET, &sector) < 0)
		return -errno;
	backing->block_size = (unsigned int)sector;
	/* The kernel lets root open a read-only device for writing, and fails each write then. */
	if (ioctl(backing->fd, BLKROGET, &read_only) == 0 && read_only)
		backing->writable = false;
	return 0;
}

/* The second descriptor must be of the same file, whatever happened to the name meanwhile. */
static void
open_direct(struct backing *backing, const struct place *place)
{
	int CLEANUP_CLOSE fd = -1;
	struct stat a, b;

	fd = place_open(place, (backing->writable ? O_RDWR : O_RDONLY) | O_DIRECT);
	if (fd < 0) {
		snprintf(backing->direct_reason, REASON_MAX, "%s",
			 fd == -EINVAL ? "the file system does not support it" : strerror(-fd));
		return;
	}
	if (fstat(fd, &a) < 0 || fstat(backing->fd, &b) < 0 || a.st_dev != b.st_dev ||
	    a.st_ino != b.st_ino) {
		snprintf(backing->direct_reason, REASON_MAX, "the file was replaced while it was opened");
		return;
	}
	if (direct_learn(fd, backing) == 0)
		backing->direct_fd = steal_fd(&fd);
}

int
backing_open(struct backing *backing, int dirfd, const char *path, unsigned int flags, char **error)
{
	const struct place place = {dirfd, path, flags & BACKING_BENEATH};
	const char *what = NULL;
	int r;

	*backing = (struct backing){.fd = -1, .direct_fd = -1};
	backing->path = strdup(path);
	if (!backing->path)
		return set_error(error, -ENOMEM, path, NULL);
	backing->fd = open_buffered(backing, &place, flags & BACKING_READ_ONLY);
	if (place.beneath && (backing->fd == -EXDEV || backing->fd == -ELOOP))
		what = "leads out of the directory";
	r = backing->fd < 0 ? backing->fd : learn_type(backing, place.beneath, &what);
	if (r < 0) {
		backing_close(backing);
		return set_error(error, r, path, what);
	}
	open_direct(backing, &place);
	return 0;
}

int
backing_reopen(int fd)
{
	int again, flags = fcntl(fd, F_GETFL);
	char path[64];

	if (flags < 0)
		return -errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, (flags & (O_ACCMODE | O_DIRECT)) | O_CLOEXEC);
	return again < 0 ? -errno : again;
}

bool
backing_is_beneath(int dirfd, const char *name)
{
	const struct place place = {dirfd, name, true};
	int CLEANUP_CLOSE fd = place_open(&place, O_RDONLY);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

void
backing_close(struct backing *backing)
{
	if (backing->direct_fd >= 0)
		close(backing->direct_fd);
	if (backing->fd >= 0)
		close(backing->fd);
	backing->fd = backing->direct_fd = -1;
	free(steal_pointer(&backing->path));
}

int64_t
backing_size(const struct backing *backing)
{
	struct stat st;
	uint64_t bytes;

	if (backing->block_device)
		return ioctl(backing->fd, BLKGETSIZE64, &bytes) < 0 ? -errno : (int64_t)bytes;
	return fstat(backing->fd, &st) < 0 ? -errno : st.st_size;
}

bool
backing_same(const struct backing *a, const struct backing *b)
{
	return a->block_device == b->block_device && a->device == b->device && a->inode == b->inode;
}
