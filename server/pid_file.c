/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/pid_file.h"

#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
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
	file->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	return file->fd < 0 ? refuse(error, path, errno) : 0;
}

int
pid_file_write(struct pid_file *file, char **error)
{
	if (file->fd < 0)
		return 0;
	if (ftruncate(file->fd, 0) < 0 || dprintf(file->fd, "%d\n", (int)getpid()) < 0)
		return refuse(error, file->path, errno);
	return 0;
}

void
pid_file_close(struct pid_file *file)
{
	if (file->fd < 0)
		return;
	if (unlink(file->path) < 0 && errno != ENOENT && ftruncate(file->fd, 0) < 0)
		log_warning("pid file %s: cannot be removed: %s", file->path, strerror(errno));
	close(file->fd);
	file->fd = -1;
}
