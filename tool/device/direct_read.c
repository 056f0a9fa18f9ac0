/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/device/direct_read.h"

#include "tool/failure.h"
#include "tool/system_file.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALIGNMENT 4096

struct result {
	int err;     /* 0: the block was read */
	bool opened; /* the node was opened */
	gint64 us;   /* that the read took */
};

static struct result
direct_read(const char *path, unsigned int block_size)
{
	struct result result = {.err = ENOMEM};
	void *CLEANUP_FREE block = NULL;
	int CLEANUP_CLOSE fd = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	const gint64 begin = g_get_monotonic_time();
	ssize_t n;

	if (fd < 0) {
		result.err = errno;
		return result;
	}
	result.opened = true;
	if (posix_memalign(&block, ALIGNMENT, block_size) != 0)
		return result;
	n = pread(fd, block, block_size, 0);
	/* A device that has just ended has no bytes, which is no error of pread(). */
	result.err = n < 0 ? errno : n < (ssize_t)block_size ? ENODEV : 0;
	result.us = g_get_monotonic_time() - begin;
	return result;
}

/* In a process of its own. It must not keep the caller's files open, for whose end somebody may
 * wait. */
static void G_GNUC_NORETURN
direct_read_process(const char *path, unsigned int block_size, int out)
{
	struct result result;

	if (out > 0)
		close_range(0, (unsigned int)out - 1, 0);
	close_range((unsigned int)out + 1, ~0U, 0);
	result = direct_read(path, block_size);
	_exit(write(out, &result, sizeof(result)) == sizeof(result) ? 0 : 1);
}

/* Returns whether the process has written its result, which a pipe takes as a whole, or ended. */
static bool
direct_read_wait(int fd, gint64 end)
{
	struct pollfd news = {.fd = fd, .events = POLLIN};
	int r;

	do {
		const gint64 left = MAX(end - g_get_monotonic_time(), 0);

		r = poll(&news, 1, (int)((left + 999) / 1000));
	} while (r < 0 && errno == EINTR);
	return r > 0;
}

bool
direct_read_first(const struct device *device, gint64 end, gint64 *us, GError **error)
{
	g_autofree char *path = system_file_path("/dev/%s", device->name);
	struct result result = {.err = EIO};
	bool answered = false;
	int fds[2];
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return failure_errno(error, errno, "/dev/%s can't be read", device->name);
	pid = fork();
	if (pid == 0)
		direct_read_process(path, device->block_size, fds[1]);
	close(fds[1]);
	if (pid > 0)
		answered = direct_read_wait(fds[0], end);
	if (answered && read(fds[0], &result, sizeof(result)) != sizeof(result))
		result.err = EIO;
	close(fds[0]);
	if (answered)
		waitpid(pid, NULL, 0);
	else if (pid > 0)
		kill(pid, SIGKILL);
	if (pid > 0 && !answered)
		return failure(error, ETIMEDOUT, "/dev/%s: the read was not answered in time",
			       device->name);
	*us = result.us;
	return result.err == 0 ||
	       failure_errno(error, result.err,
			     result.opened ? "/dev/%s can't be read" : "/dev/%s can't be opened",
			     device->name);
}
