/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/guard_state.h"

#include "tool/device/image_file.h"
#include "tool/failure.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool
guard_write_record(struct guard *guard, GError **error)
{
	const struct upstream *upstream = &guard->upstream;
	struct guard_progress progress = {
		.place = upstream->place,
		.direct_io = upstream->direct_io ? upstream->direct_io : "auto",
		.read_only = upstream->read_only,
		.tls = upstream->connections[0].tls,
	};
	struct stat st;

	if (upstream->image >= 0 && fstat(upstream->image, &st) == 0)
		progress.image = image_file_identity(&st);
	return guard_record_write(&guard->record, guard->plan, &progress, error);
}

/* The server may have chosen another cipher. */
static void
record_tls(struct guard *guard)
{
	g_autoptr(GError) error = NULL;

	if (guard->plan->upstream.tls.wanted && !guard_write_record(guard, &error))
		log_warning("%s: %s", guard->attachment.name, error->message);
}

bool
guard_restore(struct guard *guard, GError **error)
{
	unsigned int count = guard->upstream.plan->connections;
	g_autofree bool *is_new = g_new(bool, count);

	for (unsigned int i = 0; i < count; i++)
		is_new[i] = upstream_lacks(&guard->upstream, i);
	if (!upstream_open(&guard->upstream, error))
		return false;
	if (!attachment_hand_over(&guard->attachment, &guard->upstream, is_new, error)) {
		upstream_drop(&guard->upstream, is_new);
		return false;
	}
	upstream_release(&guard->upstream);
	record_tls(guard);
	return true;
}

void
guard_log_loss(const struct guard *guard, const char *why)
{
	log_error("%s: %s; it is started again", guard->attachment.name, why);
}

bool
guard_lock_memory(GError **error)
{
	int CLEANUP_CLOSE fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, "-1000", 5) < 0)
		return failure_errno(
			error, errno,
			"--swap: the process can't be exempted from the out-of-memory killer");
#ifdef __GLIBC__
	/* A thread's own heap would be 64 MiB more. */
	mallopt(M_ARENA_MAX, 1);
#endif
	if (mlockall(MCL_CURRENT | MCL_FUTURE) < 0)
		return failure_errno(error, errno, "--swap: memory can't be locked");
	/* The kernel keeps some of the last memory for such threads. */
	if (sched_setscheduler(0, SCHED_RR, &(struct sched_param){.sched_priority = 1}) < 0)
		log_warning(
			"--swap: no real-time priority: %s; when memory is short, the device may stall",
			g_strerror(errno));
	return true;
}
