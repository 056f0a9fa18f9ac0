/* SPDX-License-Identifier: BSD-3-Clause */
/* For LD_PRELOAD: a file system that can't report where data and holes are. */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

off_t
lseek(int fd, off_t offset, int whence)
{
	if (whence == 3 || whence == 4) { /* SEEK_DATA, SEEK_HOLE */
		errno = EIO;
		return -1;
	}
	return (off_t)syscall(SYS_lseek, fd, offset, whence);
}

off_t
lseek64(int fd, off_t offset, int whence)
{
	return lseek(fd, offset, whence);
}
