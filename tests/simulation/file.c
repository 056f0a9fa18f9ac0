/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/file.h"

#include "tests/simulation/call.h"
#include "tests/simulation/chance.h"
#include "tests/simulation/descriptor.h"
#include "tests/simulation/disk.h"
#include "tests/simulation/event.h"
#include "tests/simulation/file_locks.h"
#include "tests/simulation/process.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#define DEVICE 0xfe01u

struct disk_mood disk_mood;
static bool struck;

bool
disk_mood_struck(void)
{
	const bool before = struck;

	struck = false;
	return before;
}

bool
disk_strikes(unsigned int once_in)
{
	const bool now = event_strikes(once_in, "an error of the disk");

	struck |= now;
	return now;
}

/* ---- open files */

struct open_file {
	struct description description;
	struct file *file;             /* NULL: a text, or the directory */
	unsigned int writeback_errors; /* those that it was told */
	char text[64];
	size_t at;
};

static short
open_file_events(struct description *description)
{
	(void)description;
	return POLLIN | POLLOUT;
}

static ssize_t
open_file_read(struct description *description, void *bytes, size_t size)
{
	struct open_file *open = (struct open_file *)description;
	const char *from = open->file ? (char *)open->file->bytes : open->text;
	const size_t length = open->file ? open->file->size : strlen(open->text);
	size_t n = length - open->at;

	if (n > size)
		n = size;
	memcpy(bytes, from + open->at, n);
	open->at += n;
	return (ssize_t)n;
}

static ssize_t
open_file_write(struct description *description, const void *bytes, size_t size)
{
	struct open_file *open = (struct open_file *)description;

	if (open->file)
		disk_write(open->file, bytes, size, open->at);
	open->at += size;
	return (ssize_t)size;
}

static void
open_file_free(struct description *description)
{
	struct open_file *open = (struct open_file *)description;

	if (open->file) {
		file_locks_drop(open->file, open);
		if (open->file->flock_owner == open)
			open->file->flock_owner = NULL;
		disk_put(open->file);
	}
	free(open);
}

static const struct description_kind kind_file = {
	.name = "a file",
	.events = open_file_events,
	.read = open_file_read,
	.write = open_file_write,
	.free = open_file_free,
};

static struct open_file *
open_file_find(int fd)
{
	return (struct open_file *)descriptor_find(fd, &kind_file);
}

/* Returns NULL if it is none, or of another kind. */
static struct open_file *
open_file_of(struct description *description)
{
	return description && description->kind == &kind_file ? (struct open_file *)description
							      : NULL;
}

static int
open_file_new(struct file *file, const char *text, int flags)
{
	struct open_file *open = calloc(1, sizeof(*open));

	open->description = (struct description){.kind = &kind_file, .flags = flags};
	open->file = file;
	if (file)
		file->users++;
	/* An error that nobody was told yet is told to the next one that opens the file. */
	open->writeback_errors = file ? file->told_errors : 0;
	snprintf(open->text, sizeof(open->text), "%s", text);
	return descriptor_open(&open->description);
}

static int
file_open_again(int fd, int flags)
{
	const struct open_file *open = open_file_find(fd);

	return open && open->file ? open_file_new(open->file, "", flags) : -ENOENT;
}

static bool
path_is_directory(const char *path)
{
	return strcmp(path, "/disk") == 0 || strcmp(path, ".") == 0 || strcmp(path, "/") == 0;
}

/* Each boot has another one. */
static const char *
file_boot_id(void)
{
	static char text[64];

	snprintf(text, sizeof(text), "4f68d8c1-0000-4000-8000-%012u\n", disk_boots());
	return text;
}

static int
file_open(const char *path, int flags, mode_t mode)
{
	struct file *file = disk_find(path);
	int fd;

	if (strncmp(path, "/proc/self/fd/", 14) == 0)
		return file_open_again(atoi(path + 14), flags);
	if (strcmp(path, "/proc/sys/kernel/random/boot_id") == 0)
		return open_file_new(NULL, file_boot_id(), flags);
	if (strcmp(path, "/dev/zero") == 0)
		return open_file_new(NULL, "", flags);
	if ((flags & O_TMPFILE) == O_TMPFILE) {
		file = disk_make(S_IFREG | (mode & 0777));
		fd = open_file_new(file, "", flags);
		disk_put(file);
		return fd;
	}
	if (path_is_directory(path))
		return flags & O_ACCMODE ? -EISDIR : open_file_new(NULL, "", flags);
	if (file && (flags & O_EXCL) && (flags & O_CREAT))
		return -EEXIST;
	if (file && S_ISSOCK(file->mode))
		return -ENXIO;
	if (flags & O_DIRECT && !disk_mood.direct_align)
		return -EINVAL;
	if (file)
		return open_file_new(file, "", flags);
	if (!(flags & O_CREAT) || strncmp(path, "/disk/", 6) != 0)
		return -ENOENT;
	file = disk_make(S_IFREG | (mode & 0777));
	disk_name(file, path);
	fd = open_file_new(file, "", flags);
	disk_put(file);
	return fd;
}

CALL(int, open, const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = va_arg(arguments, mode_t);
	va_end(arguments);
	CALL_RETURN(file_open(path, flags, mode));
}

CALL(int, openat, int directory, const char *path, int flags, ...)
{
	if (directory != AT_FDCWD)
		trace_fail("openat() in a directory is not simulated");
	CALL_RETURN(file_open(path, flags, 0));
}

/* ---- facts */

static int
file_facts(const struct file *file, struct stat *facts)
{
	uint64_t blocks = 0;

	memset(facts, 0, sizeof(*facts));
	facts->st_mode = file ? file->mode : S_IFDIR | 0755;
	facts->st_nlink = file ? file->names : 2;
	facts->st_dev = DEVICE;
	facts->st_ino = file ? file->number : 2;
	facts->st_blksize = FILE_BLOCK;
	if (!file)
		return 0;
	facts->st_size = (off_t)file->size;
	for (size_t i = 0; i < file->room / FILE_BLOCK; i++)
		blocks += file->allocated[i] * (FILE_BLOCK / 512);
	facts->st_blocks = (blkcnt_t)blocks;
	facts->st_mtim.tv_sec = file->modified / SECOND;
	facts->st_mtim.tv_nsec = file->modified % SECOND;
	facts->st_ctim = facts->st_mtim;
	return 0;
}

CALL(int, fstat, int fd, struct stat *facts)
{
	const struct open_file *open = open_file_find(fd);

	if (!open)
		CALL_RETURN(-EBADF);
	return file_facts(open->file, facts);
}

CALL(int, stat, const char *path, struct stat *facts)
{
	const struct file *file = disk_find(path);

	if (!file && !path_is_directory(path))
		CALL_RETURN(-ENOENT);
	return file_facts(file, facts);
}

/* Of a name in the only directory. */
CALL(int, fstatat, int directory, const char *name, struct stat *facts, int flags)
{
	char path[128];

	(void)directory;
	(void)flags;
	snprintf(path, sizeof(path), "/disk/%s", name);
	return world_stat(path, facts);
}

CALL(ssize_t, readlink, const char *path, char *target, size_t size)
{
	const bool is_open = strncmp(path, "/proc/self/fd/", 14) == 0;
	const struct open_file *open = is_open ? open_file_find(atoi(path + 14)) : NULL;
	const char *name = open && open->file ? disk_path(open->file) : NULL;
	size_t length = name ? strlen(name) : 0;

	if (!name)
		CALL_RETURN(-ENOENT);
	length = length < size ? length : size;
	memcpy(target, name, length);
	return (ssize_t)length;
}

CALL(int, lstat, const char *path, struct stat *facts)
{
	return world_stat(path, facts);
}

CALL(int, statx, int fd, const char *path, int flags, unsigned int mask, struct statx *facts)
{
	struct stat old;

	(void)path;
	(void)flags;
	if (world_fstat(fd, &old) < 0)
		return -1;
	memset(facts, 0, sizeof(*facts));
	facts->stx_mask = mask;
	facts->stx_mode = (uint16_t)old.st_mode;
	facts->stx_ino = old.st_ino;
	facts->stx_size = (uint64_t)old.st_size;
	facts->stx_blocks = (uint64_t)old.st_blocks;
	facts->stx_mtime.tv_sec = old.st_mtim.tv_sec;
	facts->stx_mtime.tv_nsec = (uint32_t)old.st_mtim.tv_nsec;
	facts->stx_ctime = facts->stx_mtime;
	return 0;
}

CALL(int, fstatfs, int fd, struct statfs *facts)
{
	(void)fd;
	memset(facts, 0, sizeof(*facts));
	facts->f_type = XFS_SUPER_MAGIC;
	facts->f_bsize = FILE_BLOCK;
	facts->f_blocks = facts->f_bfree = facts->f_bavail = 1 << 20;
	return 0;
}

CALL(int, fstatvfs, int fd, struct statvfs *facts)
{
	(void)fd;
	memset(facts, 0, sizeof(*facts));
	facts->f_bsize = facts->f_frsize = FILE_BLOCK;
	facts->f_blocks = facts->f_bfree = facts->f_bavail = 1 << 20;
	return 0;
}

CALL(int, access, const char *path, int mode)
{
	(void)mode;
	CALL_RETURN(disk_find(path) || path_is_directory(path) ? 0 : -ENOENT);
}

CALL(int, faccessat, int directory, const char *path, int mode, int flags)
{
	(void)directory;
	(void)path;
	(void)mode;
	(void)flags;
	return 0;
}

long
file_open_beneath(va_list arguments)
{
	char path[128];

	va_arg(arguments, int);
	snprintf(path, sizeof(path), "/disk/%s", va_arg(arguments, const char *));
	return file_open(path, O_RDONLY, 0);
}

long
file_tell_align(va_list arguments)
{
	unsigned int *facts;

	va_arg(arguments, int);
	va_arg(arguments, const char *);
	va_arg(arguments, int);
	va_arg(arguments, unsigned int);
	facts = va_arg(arguments, unsigned int *);
	facts[0] = 0x2000; /* STATX_DIOALIGN */
	facts[38] = facts[39] = disk_mood.direct_align;
	return 0;
}

/* ---- transfers */

static void
disk_get_stuck(int64_t until)
{
	disk_mood.unstuck_at = until;
	scheduler_wait("a stuck disk", NULL, NULL, until);
}

/* The time that a request takes. Afterwards, it may have been stuck for long. */
static void
disk_take_time(void)
{
	if (disk_mood.stuck_until > scheduler_now())
		disk_get_stuck(disk_mood.stuck_until);
	else if (event_strikes(disk_mood.sticky, "a stuck request"))
		disk_get_stuck(scheduler_now() + (int64_t)chance_below(4000) * MILLISECOND);
	else if (event_strikes(disk_mood.slow, "a slow request"))
		scheduler_sleep((int64_t)chance_below(50) * MILLISECOND);
	else if (chance_once_in(2))
		scheduler_sleep((int64_t)chance_below(300) * MICROSECOND);
	else
		scheduler_yield();
}

static long
file_check(const struct open_file *open, const void *bytes, size_t length, uint64_t offset)
{
	const unsigned int align = disk_mood.direct_align;

	if (!open || !open->file)
		return -EBADF;
	if (!(open->description.flags & O_DIRECT))
		return 0;
	return offset % align || length % align || (uintptr_t)bytes % align ? -EINVAL : 0;
}

static size_t
file_shorten(const struct open_file *open, size_t length)
{
	const unsigned int unit =
		open->description.flags & O_DIRECT ? disk_mood.direct_align : SECTOR_SIZE;

	return length > unit && event_strikes(disk_mood.short_one, "a short transfer")
		       ? chance_between(1, length / unit - 1) * unit
		       : length;
}

long
file_read(struct description *description, void *bytes, size_t length, uint64_t offset)
{
	struct open_file *open = open_file_of(description);
	long r = file_check(open, bytes, length, offset);
	struct file *file;
	size_t done = 0;

	if (r < 0)
		return r;
	file = open->file;
	kernel_enter("pread");
	disk_take_time();
	if (disk_strikes(disk_mood.eio))
		r = -EIO;
	else if (event_strikes(disk_mood.eintr, "EINTR of the disk"))
		r = -EINTR;
	length = file_shorten(open, length);
	while (r == 0 && done < length && offset + done < file->size) {
		size_t n = SECTOR_SIZE - (offset + done) % SECTOR_SIZE;

		if (n > length - done)
			n = length - done;
		if (n > file->size - offset - done)
			n = file->size - offset - done;
		memcpy((char *)bytes + done, file->bytes + offset + done, n);
		done += n;
		if (chance_once_in(16))
			disk_take_time();
	}
	kernel_leave();
	return r < 0 ? r : (long)done;
}

static bool
file_is_synchronous(const struct open_file *open, int flags)
{
	return (flags & RWF_DSYNC) || (open->description.flags & O_DSYNC);
}

long
file_write(struct description *description, const void *bytes, size_t length, uint64_t offset,
	   int flags)
{
	struct open_file *open = open_file_of(description);
	long r = file_check(open, bytes, length, offset);
	size_t done = 0;

	if (r < 0)
		return r;
	kernel_enter("pwrite");
	disk_take_time();
	if (disk_strikes(disk_mood.eio))
		r = -EIO;
	else if (disk_strikes(disk_mood.enospc))
		r = chance_once_in(2) ? -ENOSPC : -EDQUOT;
	else if (event_strikes(disk_mood.eintr, "EINTR of the disk"))
		r = -EINTR;
	length = file_shorten(open, length);
	while (r == 0 && done < length) {
		size_t n = SECTOR_SIZE - (offset + done) % SECTOR_SIZE;

		if (n > length - done)
			n = length - done;
		disk_write(open->file, (const char *)bytes + done, n, offset + done);
		done += n;
		if (chance_once_in(16))
			disk_take_time();
	}
	if (r == 0 && file_is_synchronous(open, flags)) {
		disk_take_time();
		disk_settle_range(open->file, offset, length);
	}
	kernel_leave();
	return r < 0 ? r : (long)done;
}

CALL(ssize_t, pread, int fd, void *bytes, size_t length, off_t offset)
{
	CALL_RETURN(file_read(descriptor_find(fd, NULL), bytes, length, (uint64_t)offset));
}

CALL(ssize_t, pwrite, int fd, const void *bytes, size_t length, off_t offset)
{
	CALL_RETURN(file_write(descriptor_find(fd, NULL), bytes, length, (uint64_t)offset, 0));
}

CALL(ssize_t, preadv2, int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	(void)count;
	if (flags & ~RWF_DSYNC)
		CALL_RETURN(-EOPNOTSUPP);
	CALL_RETURN(file_read(descriptor_find(fd, NULL), iov->iov_base, iov->iov_len,
			      (uint64_t)offset));
}

CALL(ssize_t, pwritev2, int fd, const struct iovec *iov, int count, off_t offset, int flags)
{
	(void)count;
	if (flags & ~RWF_DSYNC)
		CALL_RETURN(-EOPNOTSUPP);
	CALL_RETURN(file_write(descriptor_find(fd, NULL), iov->iov_base, iov->iov_len,
			       (uint64_t)offset, flags));
}

/* ---- syncs */

/* Tells each open file once of failed write-backs. */
static long
file_told_loss(struct open_file *open)
{
	if (open->writeback_errors == open->file->writeback_errors)
		return 0;
	open->writeback_errors = open->file->told_errors = open->file->writeback_errors;
	return -open->file->last_error;
}

long
file_sync(struct description *description, const char *what)
{
	struct open_file *open = open_file_of(description);
	struct disk_sync *sync;
	long r;

	if (!open)
		return -EBADF;
	kernel_enter(what);
	disk_take_time();
	if (!open->file) {
		disk_settle_names();
		kernel_leave();
		return 0;
	}
	sync = disk_sync_begin(open->file);
	disk_take_time();
	if (disk_strikes(disk_mood.writeback))
		disk_lose(open->file, chance_once_in(2) ? EIO : ENOSPC);
	disk_sync_end(open->file, sync, true);
	r = file_told_loss(open);
	kernel_leave();
	return r;
}

CALL(int, fdatasync, int fd)
{
	CALL_RETURN(file_sync(descriptor_find(fd, NULL), "fdatasync"));
}

CALL(int, fsync, int fd)
{
	CALL_RETURN(file_sync(descriptor_find(fd, NULL), "fsync"));
}

/* Only asked about places without pages, which does not wait. */
CALL(int, sync_file_range, int fd, off64_t offset, off64_t length, unsigned int flags)
{
	struct open_file *open = open_file_find(fd);

	(void)offset;
	(void)length;
	(void)flags;
	CALL_RETURN(open ? file_told_loss(open) : -EBADF);
}

CALL(int, posix_fadvise, int fd, off_t offset, off_t length, int advice)
{
	(void)fd;
	(void)offset;
	(void)length;
	(void)advice;
	return 0;
}

/* ---- space */

long
file_allocate(struct description *description, int mode, uint64_t offset, uint64_t length)
{
	struct open_file *open = open_file_of(description);
	struct file *file;
	long r = 0;

	if (!open || !open->file)
		return -EBADF;
	file = open->file;
	if (offset + length > INT64_MAX)
		return -EFBIG;
	kernel_enter("fallocate");
	disk_take_time();
	if (disk_strikes(disk_mood.eio))
		r = -EIO;
	else if (event_strikes(disk_mood.eintr, "EINTR of the disk"))
		r = -EINTR;
	else if (!(mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)))
		r = -EOPNOTSUPP;
	if (r == 0 && offset < file->size)
		disk_write(file, NULL, length < file->size - offset ? length : file->size - offset,
			   offset);
	for (uint64_t at = offset / FILE_BLOCK;
	     r == 0 && mode & FALLOC_FL_ZERO_RANGE && at * FILE_BLOCK < offset + length &&
	     at * FILE_BLOCK < file->room;
	     at++)
		file->allocated[at] = true;
	disk_take_time();
	kernel_leave();
	return r;
}

CALL(int, fallocate, int fd, int mode, off_t offset, off_t length)
{
	CALL_RETURN(
		file_allocate(descriptor_find(fd, NULL), mode, (uint64_t)offset, (uint64_t)length));
}

CALL(int, ftruncate, int fd, off_t size)
{
	struct open_file *open = open_file_find(fd);

	if (!open || !open->file)
		CALL_RETURN(-EBADF);
	kernel_enter("ftruncate");
	disk_resize(open->file, (size_t)size);
	kernel_leave();
	return 0;
}

static long
file_seek(const struct file *file, uint64_t offset, int whence)
{
	if (whence == SEEK_END)
		return (long)file->size;
	if (offset >= file->size)
		return -ENXIO;
	for (uint64_t at = offset / FILE_BLOCK; at * FILE_BLOCK < file->size; at++) {
		if (file->allocated[at] == (whence == SEEK_DATA))
			return (long)(at * FILE_BLOCK > offset ? at * FILE_BLOCK : offset);
	}
	return whence == SEEK_DATA ? -ENXIO : (long)file->size;
}

CALL(off_t, lseek, int fd, off_t offset, int whence)
{
	struct open_file *open = open_file_find(fd);

	if (!open || !open->file)
		CALL_RETURN(-EBADF);
	kernel_enter("lseek");
	disk_take_time();
	kernel_leave();
	CALL_RETURN(file_seek(open->file, (uint64_t)offset, whence));
}

/* ---- names */

CALL(int, unlink, const char *path)
{
	if (!disk_find(path))
		CALL_RETURN(-ENOENT);
	trace("%s is removed", path);
	disk_unname(path);
	return 0;
}

CALL(int, renameat2, int from_directory, const char *from, int to_directory, const char *to,
     unsigned int flags)
{
	struct file *file = disk_find(from);

	(void)from_directory;
	(void)to_directory;
	if (!file)
		CALL_RETURN(-ENOENT);
	if (flags & RENAME_NOREPLACE && disk_find(to))
		CALL_RETURN(-EEXIST);
	file->users++;
	disk_name(file, to);
	disk_unname(from);
	disk_put(file);
	return 0;
}

CALL(int, chmod, const char *path, mode_t mode)
{
	struct file *file = disk_find(path);

	if (!file)
		CALL_RETURN(-ENOENT);
	file->mode = (file->mode & S_IFMT) | mode;
	return 0;
}

/* ---- locks and flags */

CALL(int, flock, int fd, int what)
{
	struct open_file *open = open_file_find(fd);

	if (!open || !open->file)
		CALL_RETURN(-EBADF);
	if (open->file->flock_owner && open->file->flock_owner != open)
		CALL_RETURN(-EWOULDBLOCK);
	open->file->flock_owner = what & LOCK_UN ? NULL : open;
	return 0;
}

CALL(int, fcntl, int fd, int command, ...)
{
	struct description *description = descriptor_find(fd, NULL);
	va_list arguments;
	void *argument;

	va_start(arguments, command);
	argument = va_arg(arguments, void *);
	va_end(arguments);
	/* The first three are open for any process. */
	if (!description)
		CALL_RETURN(fd < 3 && command == F_GETFD ? 0 : -EBADF);
	switch (command) {
	case F_GETFD:
	case F_SETFD: return 0;
	case F_GETFL: return description->flags;
	case F_SETFL:
		description->flags = (description->flags & (O_ACCMODE | O_DIRECT)) |
				     ((int)(uintptr_t)argument & ~(O_ACCMODE | O_DIRECT));
		return 0;
	case F_DUPFD_CLOEXEC: CALL_RETURN(descriptor_add(description, 3));
	case F_OFD_GETLK:
	case F_OFD_SETLK:
		CALL_RETURN(
			file_locks_call(open_file_find(fd)->file, description, command, argument));
	default: trace_fail("fcntl() with %d is not simulated", command);
	}
}
