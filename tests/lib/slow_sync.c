/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For LD_PRELOAD: fdatasync() takes SLOW_SYNC_SECONDS longer, and creates the file SLOW_SYNC_CALLED
 * first.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int
fdatasync(int fd)
{
	const char *seconds = getenv("SLOW_SYNC_SECONDS"), *called = getenv("SLOW_SYNC_CALLED");

	if (called)
		close(open(called, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
	if (seconds)
		sleep((unsigned int)atoi(seconds));
	return (int)syscall(SYS_fdatasync, fd);
}
