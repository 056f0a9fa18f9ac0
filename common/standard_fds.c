/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/standard_fds.h"

#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Longer than any text that a program prints at once but for lists: written by stdio itself, in
 * between, its errno would be lost. */
static char standard_output[64 << 10];

void
standard_fds_ensure(void)
{
	static const char failed[] = "/dev/null and / can't be opened\n";

	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		/* open() returns the lowest free number: this one. Where there is no /dev/null, as
		 * in some containers, what is printed is an error then. */
		if (fcntl(fd, F_GETFD) >= 0 || open("/dev/null", O_RDWR) == fd ||
		    open("/", O_RDONLY | O_DIRECTORY) == fd)
			continue;
		if (write(STDERR_FILENO, failed, sizeof(failed) - 1) < 0)
			_exit(EXIT_FAILURE);
		_exit(EXIT_FAILURE);
	}
	if (!isatty(STDOUT_FILENO))
		setvbuf(stdout, standard_output, _IOFBF, sizeof(standard_output));
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
