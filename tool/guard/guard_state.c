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
	const struct source_facts facts = source_facts_of(source);
	const struct guard_progress progress = {
		.place = source->place,
		.direct_io = source->direct_io ? source->direct_io : "auto",
		.iops_limit = source->iops_limit,
		.bandwidth_limit = source->bandwidth_limit,
		.read_only = source->read_only,
		.ceph_fence = (char *)facts.ceph_fence,
		.server = (char *)facts.server,
		.misfits = guard->misfits,
		.image = facts.image,
		.flags = facts.flags,
		.tls = source->connections[0].tls,
	};

	return guard_record_write(&guard->record, guard->plan, &progress, error);
}

void
guard_rewrite_record(struct guard *guard)
{
	g_autoptr(GError) error = NULL;

	if (!guard_write_record(guard, &error))
		log_warning("%s: %s", guard->attachment.name, error->message);
}

/* It may be another server, or the server may have chosen another cipher. */
static void
record_connection(struct guard *guard)
{
	if (guard->source.kind->volatile_facts)
		guard_rewrite_record(guard);
}

/* What another server's export must be like. */
static void
tell_device(struct guard *guard)
{
	struct source *source = &guard->source;
	struct device *DEVICE_CLEANUP device =
		source->kind->note_device ? device_read(guard->attachment.name, NULL) : NULL;

	if (device)
		source->kind->note_device(source, device);
}

void
guard_look_at_others(struct guard *guard)
{
	if (guard->looking >= 0)
		close(guard->looking);
	if (guard->misfits) {
		g_clear_pointer(&guard->misfits, g_free);
		record_connection(guard);
	}
	tell_device(guard);
	guard->looking = guard->source.kind->look_at_others
				 ? guard->source.kind->look_at_others(&guard->source)
				 : -1;
}

void
guard_take_look(struct guard *guard)
{
	guard->misfits = other_servers_result(guard->looking);
	guard->looking = -1;
	if (!guard->misfits)
		return;
	log_warning("%s: %s", guard->attachment.name, guard->misfits);
	record_connection(guard);
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
	if (source_facts_of(&guard->source).ceph_fence)
		guard_rewrite_record(guard);
	if (!attachment_can_go_on(&guard->attachment, error) || !source_open(&guard->source, error))
		return false;
	/* Before its first request: whoever takes this guard's place must know its client of Ceph.
	 */
	if (source_facts_of(&guard->source).ceph_fence)
		guard_rewrite_record(guard);
	if (!attachment_hand_over(&guard->attachment, &guard->source, is_new, error)) {
		source_drop(&guard->source, is_new);
		return false;
	}
	source_release(&guard->source);
	guard->silence = (struct silence){.since = 0};
	record_connection(guard);
	return true;
}

void
guard_log_loss(const struct guard *guard, const char *why)
{
	const bool runs = guard->source.kind->runs(&guard->source);

	log_error("%s: %s; it is %s again", guard->attachment.name, why,
		  runs ? "connected" : "started");
}

void
guard_log_return(const struct guard *guard)
{
	const char *uri = source_facts_of(&guard->source).server;
	g_autofree char *server = uri ? nbd_uri_server_name(uri) : NULL;

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
