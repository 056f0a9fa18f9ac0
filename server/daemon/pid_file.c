/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon/pid_file.h"

#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Digits and white space, or nothing: the content that a server writes, or leaves if it can't
 * remove the file. */
static bool
holds_process_number(int fd)
{
	char text[32];
	ssize_t length = pread(fd, text, sizeof(text), 0);

	if (length < 0 || length == (ssize_t)sizeof(text))
		return false;
	for (ssize_t i = 0; i < length; i++) {
		if (!memchr("0123456789 \t\n", text[i], sizeof("0123456789 \t\n") - 1))
			return false;
	}
	return true;
}

/* A wrong name must not destroy an image: no file with other content is overwritten or removed. */
static const char *
pid_file_why_unfit(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return "exists already, and is no regular file";
	if (!holds_process_number(fd))
		return "exists already, and holds something other than a process ID; it is left alone";
	return NULL;
}

int
pid_file_open(struct pid_file *file, const char *path, char **error)
{
	const char *what;

	*file = (struct pid_file){.fd = -1, .path = path};
	if (!path)
		return 0;
	/* The content that another server wrote stays until this one is ready. */
	file->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	file->made = file->fd >= 0;
	/* O_NONBLOCK: it may be a FIFO. */
	if (file->fd < 0 && errno == EEXIST)
		file->fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (file->fd < 0)
		return error_set(error, -errno, "pid file %s: %s", path,
				 errno == ELOOP ? "is a symbolic link, which is not followed"
						: strerror(errno));
	what = file->made ? NULL : pid_file_why_unfit(file->fd);
	if (!what)
		return 0;
	close(file->fd);
	file->fd = -1;
	return error_set(error, -EEXIST, "pid file %s: %s", path, what);
}

int
pid_file_write(struct pid_file *file, char **error)
{
	const char *what;

	if (file->fd < 0)
		return 0;
	/* Another program may have written to it since. */
	what = pid_file_why_unfit(file->fd);
	if (what)
		return error_set(error, -EEXIST, "pid file %s: %s", file->path, what);
	if (ftruncate(file->fd, 0) < 0 || dprintf(file->fd, "%d\n", (int)getpid()) < 0)
		return error_set(error, -errno, "pid file %s: %s", file->path, strerror(errno));
	file->written = true;
	return 0;
}

/* Returns whether no other program has written to the file, or replaced it, since we did. */
static bool
pid_file_is_ours(const struct pid_file *file)
{
	struct stat ours, there;
	char text[32] = "";
	ssize_t length = pread(file->fd, text, sizeof(text) - 1, 0);

	if (file->written ? !holds_process_number(file->fd) || atoi(text) != (int)getpid()
			  : !file->made || length != 0)
		return false;
	/* Without privileges, we may have no access to its directory, and can only empty the file.
	 */
	if (lstat(file->path, &there) < 0)
		return errno != ENOENT;
	return fstat(file->fd, &ours) == 0 && ours.st_dev == there.st_dev &&
	       ours.st_ino == there.st_ino;
}

void
pid_file_close(struct pid_file *file)
{
	if (file->fd < 0)
		return;
	if (pid_file_is_ours(file) && unlink(file->path) < 0 && errno != ENOENT &&
	    ftruncate(file->fd, 0) < 0)
		log_warning("pid file %s: cannot be removed: %s", file->path, strerror(errno));
	close(file->fd);
	file->fd = -1;
}
