/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/standard_fds.h"

#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void
standard_fds_ensure(void)
{
	int fd;

	/* open() returns the lowest free number. */
	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd < 0)
		abort();
	close(fd);
}

static int write_error; /* errno of the last flush that failed */

bool
standard_output_flush(void)
{
	if (fflush(stdout) == 0)
		return true;
	write_error = errno;
	return false;
}

int
standard_output_end(int status)
{
	/* Of an earlier write that stdio made by itself, the errno is lost. */
	const bool failed = ferror(stdout);

	if (fclose(stdout) != 0)
		write_error = errno;
	else if (failed && !write_error)
		write_error = EIO;
	if (!write_error)
		return status;
	log_error("write error: %s", strerror(write_error));
	return EXIT_FAILURE;
}
