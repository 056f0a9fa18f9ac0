/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/pid_file.h"

#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int
refuse(char **error, const char *path, int err)
{
	if (asprintf(error, "pid file %s: %s", path, strerror(err)) < 0)
		*error = NULL;
	return -err;
}

int
pid_file_open(struct pid_file *file, const char *path, char **error)
{
	*file = (struct pid_file){.fd = -1, .path = path};
	if (!path)
		return 0;
	/* What another server wrote stays there until this one is ready. */
	file->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	file->made = file->fd >= 0;
	if (file->fd < 0 && errno == EEXIST)
		file->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
	return file->fd < 0 ? refuse(error, path, errno) : 0;
}

int
pid_file_write(struct pid_file *file, char **error)
{
	if (file->fd < 0)
		return 0;
	if (ftruncate(file->fd, 0) < 0 || dprintf(file->fd, "%d\n", (int)getpid()) < 0)
		return refuse(error, file->path, errno);
	file->written = true;
	return 0;
}

/* Nobody has written or replaced it since. */
static bool
is_ours(const struct pid_file *file)
{
	struct stat ours, there;
	char text[32] = "";
	ssize_t length = pread(file->fd, text, sizeof(text) - 1, 0);

	if (file->written ? atoi(text) != (int)getpid() : !file->made || length != 0)
		return false;
	/* With privileges dropped, its directory may be closed to us: then it can be emptied only. */
	if (stat(file->path, &there) < 0)
		return errno != ENOENT;
	return fstat(file->fd, &ours) == 0 && ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

void
pid_file_close(struct pid_file *file)
{
	if (file->fd < 0)
		return;
	if (is_ours(file) && unlink(file->path) < 0 && errno != ENOENT && ftruncate(file->fd, 0) < 0)
		log_warning("pid file %s: cannot be removed: %s", file->path, strerror(errno));
	close(file->fd);
	file->fd = -1;
}
