/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/device/frozen_mounts.h"

#include "tool/device/device_mounts.h"
#include "tool/failure.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* How long file systems are frozen at most, in milliseconds. */
#define FROZEN_MAX_MS 10000

/* How the child ends. */
enum {
	THAWED_WHEN_TOLD,
	THAWED_TOO_EARLY,
};

/* What the child says once about the freeze. */
struct report {
	int err;   /* errno, or 0: all are frozen */
	guint nth; /* the one that could not be frozen */
};

/* ---- the child; between fork() and _exit(), only system calls */

static void
mounts_thaw(const GArray *fds, guint count)
{
	while (count-- > 0)
		ioctl(g_array_index(fds, int, count), FITHAW, 0);
}

/* Nested file systems come after those that they are mounted on, and writing them back may need
 * these: so the last one is frozen first. */
static struct report
mounts_freeze(const GArray *fds)
{
	for (guint i = fds->len; i-- > 0;) {
		if (ioctl(g_array_index(fds, int, i), FIFREEZE, 0) == 0)
			continue;
		int err = errno;

		for (guint j = i + 1; j < fds->len; j++)
			ioctl(g_array_index(fds, int, j), FITHAW, 0);
		return (struct report){err, i};
	}
	return (struct report){0, 0};
}

static void __attribute__((noreturn)) run_child(const GArray *fds, int told, int said)
{
	struct pollfd end = {.fd = told, .events = POLLIN};
	struct report report;
	sigset_t all;
	int r;

	/* Not even Ctrl-C may end it before it has thawed. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	setsid();
	report = mounts_freeze(fds);
	if (write(said, &report, sizeof(report)) != sizeof(report) || report.err) {
		if (!report.err)
			mounts_thaw(fds, fds->len);
		_exit(THAWED_TOO_EARLY);
	}
	r = poll(&end, 1, FROZEN_MAX_MS);
	mounts_thaw(fds, fds->len);
	_exit(r == 1 ? THAWED_WHEN_TOLD : THAWED_TOO_EARLY);
}

/* ---- the parent */

/* Whether one of the first `count` mounts is of the same file system: that of its partition. The
 * subvolumes of btrfs differ in st_dev. */
static bool
was_mounted(const GPtrArray *mounts, guint count, const char *part)
{
	for (guint i = 0; i < count; i++) {
		const struct device_mount *mount = mounts->pdata[i];

		if (strcmp(mount->part, part) == 0)
			return true;
	}
	return false;
}

/* Opens a file of each mounted file system once. */
static bool
open_mounts(struct frozen_mounts *frozen, const GPtrArray *mounts, GError **error)
{
	for (guint i = 0; i < mounts->len; i++) {
		const struct device_mount *mount = mounts->pdata[i];
		int CLEANUP_CLOSE fd = -1;

		if (was_mounted(mounts, i, mount->part))
			continue;
		fd = open(mount->where, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			return failure_errno(error, errno, "%s can't be frozen", mount->where);
		/* Most of what is dirty goes now, while nothing has to wait. */
		syncfs(fd);
		g_array_append_val(frozen->fds, fd);
		fd = -1;
	}
	return true;
}

static void
close_all(struct frozen_mounts *frozen)
{
	if (frozen->hold >= 0)
		close(steal_fd(&frozen->hold));
	for (guint i = 0; i < frozen->fds->len; i++)
		close(g_array_index(frozen->fds, int, i));
	g_array_unref(frozen->fds);
	frozen->fds = NULL;
}

static int
await_child(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0) {
		if (errno != EINTR)
			return -1;
	}
	return status;
}

/* What the child says; a signal that is handled may interrupt the wait. */
static struct report
await_report(int said)
{
	struct report report;
	ssize_t n;

	do
		n = read(said, &report, sizeof(report));
	while (n < 0 && errno == EINTR);
	return n == sizeof(report) ? report : (struct report){EPIPE, 0};
}

/* Has the child freeze.  `name` is the device's. */
static bool
start_child(struct frozen_mounts *frozen, const char *name, GError **error)
{
	struct report report = {0, 0};
	int told[2], said[2];

	if (pipe2(told, O_CLOEXEC) < 0)
		return failure_errno(error, errno, "/dev/%s can't be frozen", name);
	frozen->hold = told[1];
	if (pipe2(said, O_CLOEXEC) < 0) {
		close(told[0]);
		return failure_errno(error, errno, "/dev/%s can't be frozen", name);
	}
	frozen->child = fork();
	if (frozen->child == 0) {
		close(told[1]);
		run_child(frozen->fds, told[0], said[1]);
	}
	close(told[0]);
	close(said[1]);
	if (frozen->child < 0)
		report.err = errno;
	else
		report = await_report(said[0]);
	close(said[0]);
	if (report.err == 0)
		return true;
	if (frozen->child > 0)
		await_child(frozen->child);
	return failure(error, report.err, "/dev/%s can't be frozen: %s", name,
		       report.err == EBUSY ? "a file system on it is frozen already"
					   : g_strerror(report.err));
}

bool
frozen_mounts_begin(struct frozen_mounts *frozen, const struct device *device, GError **error)
{
	g_autoptr(GPtrArray) mounts = device_mounts(device, "self");

	*frozen = (struct frozen_mounts){.hold = -1};
	frozen->fds = g_array_new(FALSE, FALSE, sizeof(int));
	if (open_mounts(frozen, mounts, error) && start_child(frozen, device->name, error))
		return true;
	close_all(frozen);
	return false;
}

bool
frozen_mounts_end(struct frozen_mounts *frozen, GError **error)
{
	int status;

	close(steal_fd(&frozen->hold));
	status = await_child(frozen->child);
	/* It was killed. */
	if (!WIFEXITED(status))
		mounts_thaw(frozen->fds, frozen->fds->len);
	close_all(frozen);
	return (WIFEXITED(status) && WEXITSTATUS(status) == THAWED_WHEN_TOLD) ||
	       failure(error, ETIMEDOUT,
		       "the file systems were thawed after %d seconds, before there was a snapshot",
		       FROZEN_MAX_MS / 1000);
}
