/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/backup/durable.h"

#include "tool/failure.h"

#include "common/cleanup.h"
#include "common/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

int
durable_open(const char *path, int flags, GError **error)
{
	const int fd = regular_file_open(path, flags);

	if (fd < 0)
		failure(error, -fd, "%s: %s", path, regular_file_strerror(-fd));
	return fd;
}

/* Returns the number of bytes, at most `size`; -1 with errno. */
static ssize_t
durable_read_fd(int fd, char *text, size_t size)
{
	size_t length = 0;
	ssize_t n = 1;

	while (length < size && n) {
		n = read(fd, text + length, size - length);
		if (n < 0 && errno != EINTR)
			return -1;
		length += n > 0 ? (size_t)n : 0;
	}
	return (ssize_t)length;
}

char *
durable_read(const char *path, size_t size, GError **error)
{
	int CLEANUP_CLOSE fd = durable_open(path, O_RDONLY, error);
	g_autofree char *text = fd < 0 ? NULL : g_malloc(size);
	ssize_t length;

	if (!text)
		return NULL;
	length = durable_read_fd(fd, text, size);
	if (length < 0 || (size_t)length == size) {
		failure_errno(error, length < 0 ? errno : EFBIG, "%s", path);
		return NULL;
	}
	text[length] = '\0';
	return g_steal_pointer(&text);
}

static char *
durable_part_path(const char *path)
{
	return g_strconcat(path, ".part", NULL);
}

/* Returns 0, or an errno: EWOULDBLOCK, if another process has the lock. */
static int
durable_flock(int fd, int operation)
{
	while (flock(fd, operation) < 0) {
		if (errno != EINTR)
			return errno;
	}
	return 0;
}

/* Takes the lock of `path`, whose file is open. */
static bool
durable_lock_fd(int fd, const char *path, GError **error)
{
	const int failed = durable_flock(fd, LOCK_EX | LOCK_NB);

	if (failed == EWOULDBLOCK)
		return failure(error, EBUSY, "%s: another backup or restore is using it", path);
	return !failed || failure_errno(error, failed, "%s: locking it", path);
}

int
durable_lock(const char *path, GError **error)
{
	g_autofree char *name = g_strconcat(path, ".lock", NULL);

	for (;;) {
		int CLEANUP_CLOSE fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		struct stat ours, named;

		if (fd < 0) {
			const int err = errno;
			g_autofree char *directory = g_path_get_dirname(path);

			/* Users know the directory, but no lock. */
			failure_errno(error, err, "%s",
				      err == ENOENT || err == ENOTDIR ? directory : name);
			return -1;
		}
		if (!durable_lock_fd(fd, path, error))
			return -1;
		/* Its last owner may have removed it before we had the lock. */
		if (fstat(fd, &ours) == 0 && stat(name, &named) == 0 &&
		    ours.st_dev == named.st_dev && ours.st_ino == named.st_ino)
			return steal_fd(&fd);
	}
}

bool
durable_lock_to_read(const char *path, int *lock, GError **error)
{
	g_autofree char *name = g_strconcat(path, ".lock", NULL);
	g_autoptr(GError) why = NULL;
	int CLEANUP_CLOSE fd = -1;

	*lock = durable_lock(path, &why);
	if (*lock >= 0)
		return true;
	if (!failure_is(why, EROFS) && !failure_is(why, EACCES))
		return failure_pass(error, &why);
	/* This process can make no file in the directory: only another one's lock counts. */
	g_clear_error(&why);
	fd = durable_open(name, O_RDONLY | O_NOFOLLOW, &why);
	if (fd < 0)
		return failure_is(why, ENOENT) || failure_pass(error, &why);
	if (!durable_lock_fd(fd, path, error))
		return false;
	*lock = steal_fd(&fd);
	return true;
}

void
durable_unlock(const char *path, int lock)
{
	g_autofree char *name = g_strconcat(path, ".lock", NULL);

	if (lock < 0)
		return;
	unlink(name);
	close(lock);
}

int
durable_begin(const char *path, GError **error)
{
	g_autofree char *part = durable_part_path(path);
	int fd;

	unlink(part);
	fd = open(part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		failure_errno(error, errno, "%s", part);
	return fd;
}

int
durable_share(const char *directory, bool alone, GError **error)
{
	int CLEANUP_CLOSE fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int failed;

	if (fd < 0) {
		failure_errno(error, errno, "%s", directory);
		return -1;
	}
	failed = durable_flock(fd, alone ? LOCK_EX | LOCK_NB : LOCK_SH);
	/* The last three: the file system has no such locks. */
	if (failed == 0 || failed == ENOTSUP || failed == ENOSYS || failed == ENOLCK)
		return steal_fd(&fd);
	if (failed == EWOULDBLOCK)
		failure(error, EBUSY, "%s: a restore or a verification is reading its backups",
			directory);
	else
		failure_errno(error, failed, "%s: locking it", directory);
	return -1;
}

bool
durable_sync_directory(const char *directory, GError **error)
{
	int CLEANUP_CLOSE fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return (fd >= 0 && fsync(fd) == 0) || failure_errno(error, errno, "%s", directory);
}

bool
durable_rename(const char *from, const char *to, GError **error)
{
	g_autofree char *directory = g_path_get_dirname(to);
	int CLEANUP_CLOSE fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return failure_errno(error, errno, "%s", directory);
	return (rename(from, to) == 0 && fsync(fd) == 0) || failure_errno(error, errno, "%s", to);
}

bool
durable_make_directory(const char *path)
{
	g_autofree char *parent = g_build_filename(path, "..", NULL);
	int CLEANUP_CLOSE fd = -1;

	if (mkdir(path, 0700) < 0)
		return false;
	fd = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0 || errno != EACCES)
		return fd >= 0 && fsync(fd) == 0;
	/* Files may be made in a directory that may not be read. */
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd >= 0 && syncfs(fd) == 0;
}

bool
durable_end(const char *path, GError **error)
{
	g_autofree char *part = durable_part_path(path);

	return durable_rename(part, path, error);
}

void
durable_cancel(const char *path)
{
	g_autofree char *part = durable_part_path(path);

	unlink(part);
}

static bool
write_text(const char *path, const char *text, mode_t mode, GError **error)
{
	const size_t size = strlen(text);
	int CLEANUP_CLOSE fd = -1;

	/* One that is left from a killed run goes, and no link is followed. */
	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 || fchmod(fd, mode) < 0)
		return failure_errno(error, errno, "%s", path);
	errno = ENOSPC; /* of a short write */
	return (write(fd, text, size) == (ssize_t)size && fsync(fd) == 0) ||
	       failure_errno(error, errno, "%s", path);
}

bool
durable_write(const char *path, const char *text, mode_t mode, GError **error)
{
	g_autofree char *new = g_strconcat(path, ".new", NULL);

	return write_text(new, text, mode, error) && durable_rename(new, path, error);
}
