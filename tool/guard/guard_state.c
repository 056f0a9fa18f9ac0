/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/guard_state.h"

#include "tool/device/image_file.h"
#include "tool/failure.h"
#include "tool/source/other_servers.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "nbd/protocol.h"

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
	const struct source *source = &guard->source;
	struct guard_progress progress = {
		.place = source->place,
		.direct_io = source->direct_io ? source->direct_io : "auto",
		.iops_limit = source->iops_limit,
		.bandwidth_limit = source->bandwidth_limit,
		.read_only = source->read_only,
		.ceph_fence = source->ceph_fence,
		.server = source->servers ? source->servers->pdata[source->in_use] : NULL,
		.misfits = guard->misfits,
		.flags = source->flags,
		.tls = source->connections[0].tls,
	};
	struct stat st;

	if (source->image >= 0 && fstat(source->image, &st) == 0)
		progress.image = image_file_identity(&st);
	return guard_record_write(&guard->record, guard->plan, &progress, error);
}

static void
guard_rewrite_record(struct guard *guard)
{
	g_autoptr(GError) error = NULL;

	if (!guard_write_record(guard, &error))
		log_warning("%s: %s", guard->attachment.name, error->message);
}

/* It may be another server, or the server may have chosen another cipher. */
static void
record_remote(struct guard *guard)
{
	if (guard->plan->source.remote)
		guard_rewrite_record(guard);
}

/* What another server's export must be like. */
static void
tell_device(struct guard *guard)
{
	struct source *source = &guard->source;
	struct device *DEVICE_CLEANUP device =
		source->servers ? device_read(guard->attachment.name, NULL) : NULL;

	if (device)
		source->device = (struct export_facts){
			.size = device->size,
			.block_size = device->block_size,
			.flags = (uint16_t)(source->flags |
					    (device->read_only ? NBD_FLAG_READ_ONLY : 0)),
		};
}

void
guard_look_at_others(struct guard *guard)
{
	if (guard->looking >= 0)
		close(guard->looking);
	if (guard->misfits) {
		g_clear_pointer(&guard->misfits, g_free);
		record_remote(guard);
	}
	tell_device(guard);
	guard->looking = guard->source.device.size > 0 ? other_servers_look(&guard->source) : -1;
}

void
guard_take_look(struct guard *guard)
{
	guard->misfits = other_servers_result(guard->looking);
	guard->looking = -1;
	if (!guard->misfits)
		return;
	log_warning("%s: %s", guard->attachment.name, guard->misfits);
	record_remote(guard);
}

bool
guard_restore(struct guard *guard, GError **error)
{
	unsigned int count = guard->source.plan->connections;
	g_autofree bool *is_new = g_new(bool, count);

	for (unsigned int i = 0; i < count; i++)
		is_new[i] = source_lacks(&guard->source, i);
	tell_device(guard);
	/* The last server may have given the lock back. */
	if (guard->source.ceph_fence)
		guard_rewrite_record(guard);
	if (!attachment_can_go_on(&guard->attachment, error) || !source_open(&guard->source, error))
		return false;
	/* Before its first request: whoever takes this guard's place must know its client of Ceph.
	 */
	if (guard->source.ceph_fence)
		guard_rewrite_record(guard);
	if (!attachment_hand_over(&guard->attachment, &guard->source, is_new, error)) {
		source_drop(&guard->source, is_new);
		return false;
	}
	source_release(&guard->source);
	guard->silence = (struct silence){.since = 0};
	record_remote(guard);
	return true;
}

void
guard_log_loss(const struct guard *guard, const char *why)
{
	const bool runs = guard->source.servers || guard->source.server.pid != 0;

	log_error("%s: %s; it is %s again", guard->attachment.name, why,
		  runs ? "connected" : "started");
}

void
guard_log_return(const struct guard *guard)
{
	const struct source *source = &guard->source;
	g_autofree char *server =
		source->servers ? nbd_uri_server_name(source->servers->pdata[source->in_use])
				: NULL;

	log_info("%s: served again%s%s", guard->attachment.name, server ? " by " : "",
		 server ? server : "");
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
