/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/standard_fds.h"

#include <fcntl.h>
#include <stdlib.h>
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
