/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/regular_file.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

int
regular_file_open(const char *path, int flags)
{
	int CLEANUP_CLOSE fd = open(path, flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct stat st;

	/* A socket, or a FIFO without readers that is opened to write. */
	if (fd < 0 && errno == ENXIO)
		return -EMEDIUMTYPE;
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	return S_ISREG(st.st_mode) ? steal_fd(&fd) : -EMEDIUMTYPE;
}

const char *
regular_file_strerror(int err)
{
	return err == EMEDIUMTYPE ? "Not a regular file" : strerror(err);
}
