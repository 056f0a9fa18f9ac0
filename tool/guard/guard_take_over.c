/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/guard_take_over.h"

#include "tool/failure.h"
#include "tool/guard/guard_files.h"
#include "tool/source/image_source.h"
#include "tool/link/server_link.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	END_PATIENCE_MS = 60000, /* for the end of a server that was killed: its disk may hang */
};

/* ---- the server without a guard */

/* Its process ID; 0: there is none any more; -1 with an error: it doesn't answer. */
static pid_t
find_server(const char *control, GError **error)
{
	g_autoptr(GError) why = NULL;
	json_auto_t *status = server_link_ask(control, "status", &why);

	if (status)
		return server_link_pid(status);
	if (failure_is(why, ECONNREFUSED) || failure_is(why, ENOENT))
		return 0;
	g_propagate_error(error, g_steal_pointer(&why));
	return -1;
}

static bool
take_over_end_server(const struct attachment *attachment, const char *control, pid_t pid,
		     GError **error)
{
	int CLEANUP_CLOSE server = pid ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	struct pollfd end = {.fd = server, .events = POLLIN};
	pid_t now;

	if (pid == 0 || (server < 0 && errno == ESRCH))
		return true;
	/* It may have died before pidfd_open(), and another process may have its ID. */
	now = find_server(control, error);
	if (now <= 0)
		return now == 0;
	if (now != pid)
		return failure(error, EBUSY, "/dev/%s has just got another server, process %d",
			       attachment->name, (int)now);
	if (server < 0 || syscall(SYS_pidfd_send_signal, server, SIGKILL, NULL, 0) < 0)
		return failure_errno(error, errno,
				     "the server of /dev/%s, process %d, can't be ended",
				     attachment->name, (int)pid);
	/* From here on the device needs a guard. */
	if (poll(&end, 1, END_PATIENCE_MS) != 1)
		log_warning(
			"the server of /dev/%s, process %d, was killed, but hasn't ended after a minute: its disk may hang",
			attachment->name, (int)pid);
	return true;
}

static void
take_source(struct source *source, const struct guard_plan *plan,
	    const struct guard_progress *progress, char *control)
{
	source_init(source, &plan->source, control,
		    control ? guard_files_path(control, 0, "nbd") : NULL);
	g_free(source->place);
	source->place = g_strdup(progress->place);
	source->direct_io = progress->direct_io;
	source->iops_limit = progress->iops_limit;
	source->bandwidth_limit = progress->bandwidth_limit;
	source->read_only = progress->read_only;
	source->kind->take_facts(source, &(struct source_facts){.ceph_fence = progress->ceph_fence,
								.server = progress->server,
								.flags = progress->flags});
}

bool
guard_take_over(struct guard *guard, const struct device *device, struct guard_plan *plan,
		struct guard_progress *progress, GError **error)
{
	g_autofree char *control = server_link_path(device->backend);
	pid_t server;

	if (!guard_record_take(&guard->record, device, plan, progress, error))
		return false;
	/* The record was found by the process ID alone, which may be nbd-client's by now. */
	if (plan->source.remote ? !g_str_equal(plan->source.place, device->backend) : !control)
		return failure(error, EINVAL,
			       "/dev/%s was not attached by nbdloop, but by process %d",
			       device->name, (int)device->pid);
	server = control ? find_server(control, error) : 0;
	if (server < 0)
		return false;
	guard->plan = plan;
	take_source(&guard->source, plan, progress, g_strdup(control));
	if (server > 0 && source_is_in_server(&guard->source))
		return failure(error, EOPNOTSUPP,
			       "/dev/%s goes on without a guard: its temporary clone would be lost "
			       "with its server, process %d",
			       device->name, (int)server);
	if (!attachment_init(&guard->attachment, &plan->attachment, g_strdup(device->backend),
			     error) ||
	    !attachment_take(&guard->attachment, device, error) ||
	    (plan->attachment.swap && !guard_lock_memory(error)))
		return false;
	if (!plan->source.remote) {
		if (!image_source_adopt(&guard->source, server, &progress->image, error) ||
		    !guard_link_listen(&guard->link, guard->source.control, error))
			return false;
		attachment_prepare_change(&guard->attachment);
		return take_over_end_server(&guard->attachment, control, server, error);
	}
	source_set_unseen(&guard->source);
	/* The guard may have been killed before it took a limit away. */
	if (plan->source.silence > 0)
		guard->attachment.changing = guard->attachment.limited = true;
	return true;
}

/* ---- connections to a remote server, which only the kernel has */

/* Offers the kernel a connection that never answers and soon ends: the kernel then repeats its
 * requests, as after the loss of any connection.  Returns the other end, or -1: the kernel did not
 * take it, so it ended when it was closed here. */
static int
offer_probe(struct attachment *attachment)
{
	int CLEANUP_CLOSE probe = -1;
	struct pollfd end = {.events = POLLIN};
	int pair[2];
	bool offered;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	probe = end.fd = pair[1];
	offered = attachment_offer(attachment, pair[0]);
	close(pair[0]);
	return offered && !(poll(&end, 1, 0) == 1 && end.revents & POLLHUP) ? steal_fd(&probe) : -1;
}

/* This does not connect to the server, which may allow only one connection. */
void
guard_probe_unseen(struct guard *guard)
{
	const unsigned int count = source_unseen(&guard->source);
	g_autofree int *probes = g_new(int, count);
	unsigned int dead = 0;

	while (dead < count && (probes[dead] = offer_probe(&guard->attachment)) >= 0)
		dead++;
	/* Only now, because a connection that has ended would count as a dead one. */
	for (unsigned int i = 0; i < dead; i++)
		close(probes[i]);
	source_lose_unseen(&guard->source, dead);
}
