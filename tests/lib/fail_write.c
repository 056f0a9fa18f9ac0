/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For LD_PRELOAD: each pwrite() appends a line "LENGTH OFFSET" to the file FAIL_WRITE_CALLS.  The
 * first one writes nothing, takes FAIL_WRITE_SECONDS and fails, if that is set; else the first
 * fdatasync() fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_bool failed;

static void
note(size_t length, long long offset)
{
	int fd = open(getenv("FAIL_WRITE_CALLS"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);

	if (fd < 0 || dprintf(fd, "%zu %lld\n", length, offset) < 0)
		abort();
	close(fd);
}

/* Which of the two names is called depends on how wide the caller's off_t is. */
ssize_t
pwrite64(int fd, const void *buffer, size_t length, off64_t offset)
{
	const char *seconds = getenv("FAIL_WRITE_SECONDS");

	note(length, offset);
	if (seconds && !atomic_exchange(&failed, 1)) {
		sleep((unsigned int)atoi(seconds));
		errno = EIO;
		return -1;
	}
	return syscall(SYS_pwrite64, fd, buffer, length, offset);
}

ssize_t
pwrite(int fd, const void *buffer, size_t length, off_t offset)
{
	return pwrite64(fd, buffer, length, offset);
}

int
fdatasync(int fd)
{
	if (!getenv("FAIL_WRITE_SECONDS") && !atomic_exchange(&failed, 1)) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fdatasync, fd);
}
