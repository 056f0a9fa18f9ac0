/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/guard_memory.h"

#include "tool/failure.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

bool
guard_memory_lock(GError **error)
{
	int CLEANUP_CLOSE fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "-1000", 5) < 0)
		return failure(error, errno,
			       "--swap: the out-of-memory killer can't be kept away: %s",
			       g_strerror(errno));
#ifdef __GLIBC__
	/* A thread's own heap would be 64 MiB more. */
	mallopt(M_ARENA_MAX, 1);
#endif
	if (mlockall(MCL_CURRENT | MCL_FUTURE) < 0)
		return failure(error, errno, "--swap: memory can't be locked: %s",
			       g_strerror(errno));
	/* The kernel keeps some of the last memory for such threads. */
	if (sched_setscheduler(0, SCHED_RR, &(struct sched_param){.sched_priority = 1}) < 0)
		log_warning(
			"--swap: no real-time priority: %s; when memory is short, the device may stand still",
			g_strerror(errno));
	return true;
}
