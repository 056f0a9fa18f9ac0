/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/guard.h"

#include "tool/device/device.h"
#include "tool/failure.h"
#include "tool/guard/guard_process.h"
#include "tool/guard/guard_report.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	START_TRIES = 10, /* each is another process: see guard_record_make() */
};

static pid_t
start(const struct guard_plan *plan, const struct device *adopted, char **name, GError **error)
{
	int report[2];
	pid_t pid;

	if (pipe2(report, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
		failure(error, errno, "no process for the device: %s", g_strerror(errno));
		return 0;
	}
	if (pid == 0) {
		guard_process_init(report[1]);
		_exit(plan ? guard_process_run(plan) : guard_process_run_adopted(adopted));
	}
	close(report[1]);
	*name = guard_report_read(report[0], error);
	close(report[0]);
	return pid;
}

bool
guard_start(const struct guard_plan *plan, char **name, GError **error)
{
	pid_t pid;

	for (unsigned int i = 0;; i++) {
		g_autoptr(GError) why = NULL;

		*name = NULL;
		pid = start(plan, NULL, name, &why);
		if (*name)
			return true;
		if (pid)
			waitpid(pid, NULL, 0);
		if (!failure_is(why, EEXIST) || i == START_TRIES) {
			g_propagate_error(error, g_steal_pointer(&why));
			return false;
		}
	}
}

bool
guard_adopt(const char *name, GError **error)
{
	struct device *DEVICE_CLEANUP device = device_read("/sys", name, error);
	g_autofree char *done = NULL;

	if (device)
		start(NULL, device, &done, error);
	return done != NULL;
}
