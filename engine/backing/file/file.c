/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/file/file.h"

#include "engine/backing/file/alignment.h"
#include "engine/backing/file/claim.h"
#include "engine/backing/file/lock.h"
#include "engine/backing/file/obstacle.h"

#include "common/cleanup.h"
#include "common/error.h"

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
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

/* The largest block of any file system, in bytes. */
#define LARGEST_CACHE_BLOCK 65536u

/* How to open a backing, and by which name; the same for each of its descriptors. */
struct place {
	int dirfd;
	const char *path;
	bool beneath;
	int path_fd; /* with .beneath: an O_PATH descriptor of the file; else -1 */
};

/* Opens a name in a directory, and follows no link out of it. If the kernel has no openat2(2)
 * (before Linux 5.6), or a container forbids it, follows no link at all. Returns a descriptor or
 * -errno. */
static int
open_beneath(int dirfd, const char *name, int flags)
{
	struct open_how how = {
		.flags = (uint64_t)flags,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	long fd;

	if (name[0] == '\0' || strchr(name, '/') || strcmp(name, ".") == 0 ||
	    strcmp(name, "..") == 0)
		return -ENOENT;
	fd = syscall(SYS_openat2, dirfd, name, &how, sizeof(how));
	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		fd = openat(dirfd, name, flags | O_NOFOLLOW);
	return fd < 0 ? -errno : (int)fd;
}

/* Opens the file that find_beneath() has found; without /proc, opens it by its name. */
static int
open_found(const struct place *place, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", place->path_fd);
	fd = open(path, flags);
	if (fd < 0 && errno == ENOENT)
		return open_beneath(place->dirfd, place->path, flags);
	return fd < 0 ? -errno : fd;
}

static int
place_open(const struct place *place, int flags)
{
	int fd;

	/* O_NONBLOCK keeps us from waiting for a FIFO before we have seen that it is one. It is
	 * cleared at once, because io_uring would take it as a request for EAGAIN. */
	flags |= O_CLOEXEC | O_NOCTTY;
	if (place->beneath) {
		fd = open_found(place, flags | O_NONBLOCK);
	} else {
		fd = openat(place->dirfd, place->path, flags | O_NONBLOCK);
		fd = fd < 0 ? -errno : fd;
	}
	if (fd >= 0)
		fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
	return fd;
}

static const char *
why_no_image(mode_t mode)
{
	return S_ISDIR(mode) ? "is a directory, not an image"
			     : "is not a regular file or a block device";
}

/* Finds a file in a directory without opening it. A client chooses the name, and opening a device
 * or a FIFO already has effects, so we open the file only after we know that it is a regular one.
 * Returns a descriptor with O_PATH, or -errno, perhaps with *what, the reason. */
static int
find_beneath(int dirfd, const char *name, const char **what)
{
	int CLEANUP_CLOSE fd = open_beneath(dirfd, name, O_PATH | O_CLOEXEC);
	struct stat st;

	if (fd == -EXDEV || fd == -ELOOP)
		*what = "leads out of the directory";
	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (S_ISREG(st.st_mode))
		return steal_fd(&fd);
	/* A link can be found only without openat2(), which would have followed it. */
	*what = S_ISLNK(st.st_mode) ? "leads out of the directory" : why_no_image(st.st_mode);
	if (S_ISLNK(st.st_mode))
		return -ELOOP;
	return S_ISDIR(st.st_mode) ? -EISDIR : -ENOTBLK;
}

/* Opens the file for writing if that is allowed, else for reading. Returns a descriptor or -errno.
 * *refused: the -errno of the attempt to write, or 0. */
static int
open_buffered(struct backing *backing, const struct place *place, bool read_only, int *refused)
{
	int fd = read_only ? -EACCES : place_open(place, O_RDWR);

	backing->writable = fd >= 0;
	*refused = fd >= 0 || read_only ? 0 : fd;
	if (fd == -EACCES || fd == -EROFS || fd == -EPERM || fd == -EISDIR)
		fd = place_open(place, O_RDONLY);
	return fd;
}

/* Returns whether the file is in memory. We ignore swap space: a call waits for swapped-out pages
 * of the file as for those of any memory. */
static bool
is_in_memory(int fd)
{
	struct statfs facts;
	uint32_t type;

	if (fstatfs(fd, &facts) < 0)
		return false;
	/* The type is signed, and has 32 or 64 bits. */
	type = (uint32_t)facts.f_type;
	return type == TMPFS_MAGIC || type == RAMFS_MAGIC;
}

/* Returns the size of a page, or of a larger block of the file system, in bytes. */
static unsigned int
cache_block_of(const struct stat *st)
{
	unsigned int page = (unsigned int)sysconf(_SC_PAGESIZE);
	uint64_t block = (uint64_t)st->st_blksize;

	/* A larger value only recommends a size of requests. */
	return block > page && block <= LARGEST_CACHE_BLOCK && !(block & (block - 1))
		       ? (unsigned int)block
		       : page;
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
		backing->cache_block = cache_block_of(&st);
		return 0;
	}
	*what = why_no_image(st.st_mode);
	if (beneath || !S_ISBLK(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -ENOTBLK;
	*what = NULL;
	backing->block_device = backing->slow_zero = true;
	backing->device = st.st_rdev;
	backing->inode = 0;
	if (ioctl(backing->fd, BLKSSZGET, &sector) < 0)
		return -errno;
	backing->block_size = (unsigned int)sector;
	/* The kernel lets root open a read-only device for writing, but then fails each write. */
	if (backing->writable && ioctl(backing->fd, BLKROGET, &read_only) == 0 && read_only) {
		backing->writable = false;
		obstacle_explain(backing, 0);
	}
	return 0;
}

/* Opens the second descriptor, for direct I/O. It must be of the same file, even if the name has
 * changed its meaning. */
static void
open_direct(struct backing *backing, const struct place *place)
{
	int CLEANUP_CLOSE fd = -1;
	struct alignment alignment;
	struct stat a, b;
	int flags;

	fd = place_open(place, (backing->writable ? O_RDWR : O_RDONLY) | O_DIRECT);
	if (fd < 0) {
		snprintf(backing->direct_reason, REASON_MAX, "%s",
			 fd == -EINVAL ? "the file system does not support it" : strerror(-fd));
		return;
	}
	if (fstat(fd, &a) < 0 || fstat(backing->fd, &b) < 0 || a.st_dev != b.st_dev ||
	    a.st_ino != b.st_ino) {
		snprintf(backing->direct_reason, REASON_MAX,
			 "the file was replaced while it was opened");
		return;
	}
	if (alignment_learn(fd, backing_device_block(backing), &alignment, backing->direct_reason,
			    REASON_MAX) < 0)
		return;
	backing->direct_align = alignment.offset;
	backing->direct_sector = alignment.sector;
	backing->memory_align = alignment.memory;
	/* By chattr +c on btrfs, perhaps of its directory. A mount option is not seen. */
	backing->compressed = ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0 && (flags & FS_COMPR_FL);
	backing->direct_fd = steal_fd(&fd);
}

/* ---- what has come up since: nobody tells of it */

/* Returns whether these facts are those of the file or device that is open. */
static bool
is_ours(const struct backing *backing, const struct stat *st)
{
	if (backing->block_device)
		return S_ISBLK(st->st_mode) && st->st_rdev == backing->device;
	return st->st_dev == backing->device && st->st_ino == backing->inode;
}

/* The kernel counts the disks, and what is put into a drive: a number is never used again. Returns
 * 0 if it does not (before Linux 5.15). */
static uint64_t
disk_number(const struct backing *backing)
{
	uint64_t number;

	return backing->block_device && backing_disk_read(backing, "diskseq", &number) == 0 ? number
											    : 0;
}

/* Returns whether the path still leads to the file. If not, says what became of it. */
static bool
find_by_name(const struct backing *backing, char trouble[BACKING_TROUBLE])
{
	struct stat named, opened;
	int r = stat(backing->path, &named) < 0 ? -errno : 0;

	if (r == 0 && is_ours(backing, &named))
		return true;
	if (r == 0)
		snprintf(trouble, BACKING_TROUBLE,
			 "another %s has this name now; the one that was opened is still served, "
			 "until the export is removed and added again, or the server restarted",
			 S_ISBLK(named.st_mode) ? "device" : "file");
	else if (r == -ENOENT && !backing->block_device && fstat(backing->fd, &opened) == 0 &&
		 opened.st_nlink == 0)
		snprintf(trouble, BACKING_TROUBLE,
			 "it was deleted; it is still served, and its data is lost when the server "
			 "ends");
	else if (r == -ENOENT)
		snprintf(trouble, BACKING_TROUBLE,
			 "nothing has this name any more; what was opened is still served, until "
			 "the server ends");
	/* Else it may be there: perhaps only this process may not look any more. */
	return trouble[0] == '\0';
}

static bool
is_gone(const struct backing *backing, char trouble[BACKING_TROUBLE])
{
	if (backing->block_device && backing_size(backing) == 0)
		snprintf(trouble, BACKING_TROUBLE, "the device is gone, or has no medium");
	else if (backing->disk_number && disk_number(backing) != backing->disk_number)
		snprintf(trouble, BACKING_TROUBLE,
			 "the device was replaced, or has another medium; the export must be "
			 "removed and added again, or the server restarted");
	return trouble[0] != '\0';
}

static void
file_look(const struct backing *backing, struct backing_look *look)
{
	char reason[REASON_MAX];

	look->trouble[0] = '\0';
	look->size = backing_size(backing);
	look->writable_again = obstacle_is_gone(backing);
	if (is_gone(backing, look->trouble))
		return;
	if (backing->named && !find_by_name(backing, look->trouble))
		return;
	if (backing->writable && obstacle_find(backing, reason))
		snprintf(look->trouble, BACKING_TROUBLE, "writes fail, because %s", reason);
	else
		claim_look(backing, look->trouble);
}

/* ---- opening both descriptors */

/* Opens both descriptors of a place. Returns 0, or -errno, perhaps with *what, the reason. */
static int
open_place(struct backing *backing, const struct place *place, bool read_only, const char **what)
{
	struct stat st;
	int r, refused;

	backing->fd = open_buffered(backing, place, read_only, &refused);
	r = backing->fd < 0 ? backing->fd : learn_type(backing, place->beneath, what);
	if (r == 0 && refused < 0)
		obstacle_explain(backing, refused);
	if (r < 0)
		return r;
	/* Later looks compare the file with the one that this path names for this process. */
	backing->named = place->dirfd == AT_FDCWD && !place->beneath &&
			 stat(backing->path, &st) == 0 && is_ours(backing, &st);
	backing->disk_number = disk_number(backing);
	open_direct(backing, place);
	return 0;
}

static void
file_close(struct backing *backing)
{
	if (backing->claim_fd >= 0)
		close(backing->claim_fd);
	/* close() may release a lock too late, because the kernel takes time to release the files
	 * of a ring. */
	if (backing->direct_fd >= 0) {
		lock_drop(backing->direct_fd);
		close(backing->direct_fd);
	}
	if (backing->fd >= 0) {
		lock_drop(backing->fd);
		close(backing->fd);
	}
	backing->fd = backing->direct_fd = backing->claim_fd = -1;
	free(steal_pointer(&backing->path));
}

static int
file_open(struct backing *backing, int dirfd, const char *path, unsigned int flags,
	  const struct image_config *config, char **error)
{
	const char *what = NULL;
	int CLEANUP_CLOSE path_fd = -1;
	struct place place = {dirfd, path, flags & BACKING_BENEATH, -1};
	int r = 0;

	(void)config;
	*backing = (struct backing){
		.kind = &backing_file,
		.page_cache = true,
		.fd = -1,
		.direct_fd = -1,
		.claim_fd = -1,
	};
	backing->path = strdup(path);
	if (!backing->path)
		return error_set(error, -ENOMEM, "%s: %s", path, strerror(ENOMEM));
	if (place.beneath) {
		path_fd = find_beneath(dirfd, path, &what);
		place.path_fd = path_fd;
		r = path_fd < 0 ? path_fd : 0;
	}
	if (r == 0)
		r = open_place(backing, &place, flags & BACKING_READ_ONLY, &what);
	if (r < 0) {
		file_close(backing);
		return error_set(error, r, "%s: %s", path, what ? what : strerror(-r));
	}
	return 0;
}

bool
file_is_beneath(int dirfd, const char *name)
{
	const char *what;
	int CLEANUP_CLOSE fd = find_beneath(dirfd, name, &what);

	return fd >= 0;
}

static int64_t
file_size(const struct backing *backing)
{
	struct stat st;
	uint64_t bytes;

	if (backing->block_device)
		return ioctl(backing->fd, BLKGETSIZE64, &bytes) < 0 ? -errno : (int64_t)bytes;
	return fstat(backing->fd, &st) < 0 ? -errno : st.st_size;
}

static bool
file_same(const struct backing *a, const struct backing *b)
{
	return a->block_device == b->block_device && a->device == b->device && a->inode == b->inode;
}

static ssize_t
file_peek(const struct backing *backing, void *buffer, size_t length, uint64_t offset)
{
	ssize_t n = pread(backing->fd, buffer, length, (off_t)offset);

	return n < 0 ? -errno : n;
}

/* Releases the locks of both descriptors. */
static void
drop_locks(const struct backing *backing)
{
	if (backing->direct_fd >= 0)
		lock_drop(backing->direct_fd);
	lock_drop(backing->fd);
}

static int
file_lock(struct backing *backing, const struct image_config *config, const struct lock_part *part,
	  bool writable, bool locked, char **error)
{
	int r = claim_take(backing, config, part, writable, locked, error);

	if (r < 0)
		return r;
	if (backing->direct_fd >= 0)
		r = lock_take_along(backing->direct_fd, backing->path, config->lock, writable,
				    error);
	if (r == 0)
		r = lock_take(backing->fd, backing->path, config->lock, part, writable, locked,
			      error);
	if (r == 0)
		return 0;
	if (!locked)
		drop_locks(backing);
	claim_drop(backing);
	return r;
}

static int
file_lock_check(const struct backing *backing, const struct image_config *config,
		const struct lock_part *part, bool writable, char **error)
{
	return lock_check(backing->fd, backing->path, config->lock, part, writable, error);
}

static void
file_unlock(struct backing *backing)
{
	drop_locks(backing);
	claim_drop(backing);
}

/* ---- extents */

struct extent {
	uint64_t end; /* offset in the file */
	bool hole;
};

/*
 * Finds the extent at offset `place` of the file, cut off at `end`. Returns 0 or -errno. lseek()
 * moves the descriptor's position, which nothing uses; its result is right even if other threads
 * call it at the same time. It is always correct to call a range data, so that is the answer if the
 * file system can't tell (EINVAL), or if the file changes during the call.
 */
static int
extent_at(int fd, uint64_t place, uint64_t end, struct extent *extent)
{
	off_t next = lseek(fd, (off_t)place, SEEK_DATA);

	*extent = (struct extent){.end = end};
	if (next < 0 && errno == ENXIO) {
		/* There is no more data up to the end of the file. Bytes that the file lost when it
		 * was truncated are no hole: a reader must get the error there, not zeroes. */
		next = lseek(fd, 0, SEEK_END);
		extent->hole = next > (off_t)place;
	} else if (next == (off_t)place) {
		next = lseek(fd, (off_t)place, SEEK_HOLE);
	} else if (next < 0 && errno != EINVAL) {
		return -errno;
	} else {
		extent->hole = next > (off_t)place;
	}
	if (next > (off_t)place && (uint64_t)next < end)
		extent->end = (uint64_t)next;
	return 0;
}

/* If the file system can't tell holes, the range is one extent of data. */
static int
file_extents(const struct backing *backing, uint64_t offset, uint64_t length, bool one,
	     extent_visit visit, void *data)
{
	uint64_t place = offset, end = offset + length;
	int r = 0;

	while (place < end && r == 0) {
		struct extent extent;

		r = extent_at(backing->fd, place, end, &extent);
		if (r == 0)
			r = visit(data, place, extent.end - place, extent.hole);
		if (one)
			break;
		place = extent.end;
	}
	return r;
}

static bool
file_have_holes(const struct backing *backing)
{
	struct stat facts;

	/* st_blocks counts units of 512 bytes, whatever the file system's block size. */
	return fstat(backing->fd, &facts) == 0 && S_ISREG(facts.st_mode) &&
	       facts.st_blocks < facts.st_size / 512;
}

/* ---- the kind */

static const char *const file_options[] = {"base-path", "temporary", "scratch", NULL};

const struct image_kind image_kind_file = {
	.name = "file",
	.one = "a file or a block device",
	.all = "files and block devices",
	.options = file_options,
};

const struct backing_kind backing_file = {
	.facts = &image_kind_file,
	.open = file_open,
	.close = file_close,
	.size = file_size,
	.look = file_look,
	.same = file_same,
	.peek = file_peek,
	.extents = file_extents,
	.have_holes = file_have_holes,
	.lock = file_lock,
	.lock_check = file_lock_check,
	.unlock = file_unlock,
};
