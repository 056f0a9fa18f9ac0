/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/guard_watch.h"

#include "tool/failure.h"
#include "tool/guard/guard_requests.h"
#include "tool/guard/guard_take_over.h"
#include "tool/guard/settling.h"

#include "common/log.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum {
	RETRY_MS = 100,
	RETRY_MOST_MS = 2000,
	LOOK_MS = 1000, /* at connections that can't be seen */
	GONE_TRIES = 30,
	GONE_US = 10000,
};

static void
wait_until_gone(const struct guard *guard)
{
	while (attachment_is_there(&guard->attachment))
		g_usleep(RETRY_MS * 1000);
}

/* Answers requests for that long, although none can be carried out now. */
static void
refuse_requests(struct guard *guard, const GError *why, unsigned int milliseconds)
{
	const gint64 end = g_get_monotonic_time() + milliseconds * 1000;
	gint64 left;

	while ((left = end - g_get_monotonic_time()) > 0) {
		g_autofree char *request = NULL;
		g_autoptr(GError) error = NULL;
		int peer, timeout = (int)(left / 1000) + 1;
		struct pollfd ready = guard_link_polled(&guard->link, &timeout);

		poll(&ready, 1, timeout);
		request = ready.revents ? guard_link_take(&guard->link, &peer) : NULL;
		if (!request)
			continue;
		failure(&error, EAGAIN,
			"/dev/%s has no server just now, and it is being tried further: %s",
			guard->attachment.name, why->message);
		guard_link_answer(peer, error);
	}
}

void
guard_watch_restore(struct guard *guard)
{
	unsigned int pause = RETRY_MS;
	g_autofree char *said = NULL;

	while (attachment_is_there(&guard->attachment)) {
		g_autoptr(GError) error = NULL;

		if (guard_restore(guard, &error)) {
			log_info("%s: served again", guard->attachment.name);
			return;
		}
		if (failure_is(error, EINVAL)) {
			/* It will be detached as soon as its last user closes it. */
			wait_until_gone(guard);
			return;
		}
		if (g_strcmp0(said, error->message) != 0)
			log_error("%s: %s; trying again", guard->attachment.name, error->message);
		g_free(said);
		said = g_strdup(error->message);
		refuse_requests(guard, error, pause);
		pause = MIN(2 * pause, RETRY_MOST_MS);
	}
}

static void
take_signal(const struct guard *guard)
{
	struct signalfd_siginfo signal;

	if (read(guard->signals, &signal, sizeof(signal)) == sizeof(signal) &&
	    signal.ssi_signo != SIGCHLD && signal.ssi_signo != SIGPIPE)
		log_warning("%s is still attached: to end it, nbdloop detach /dev/%s",
			    guard->attachment.name, guard->attachment.name);
}

/* ---- watching */

static void
wait_for_news(struct guard *guard)
{
	const struct upstream *upstream = &guard->upstream;
	int timeout = upstream_unseen(upstream) > 0 ? LOOK_MS : -1;
	unsigned int count = 3;
	g_autofree struct pollfd *fds = g_new0(struct pollfd, count + upstream->plan->connections);

	fds[0] = (struct pollfd){.fd = guard->signals, .events = POLLIN};
	fds[1] = (struct pollfd){.fd = upstream->server.output, .events = POLLIN};
	fds[2] = guard_link_polled(&guard->link, &timeout);
	for (unsigned int i = 0; i < upstream->plan->connections; i++)
		fds[count++] =
			(struct pollfd){.fd = upstream->connections[i].fd, .events = POLLRDHUP};
	poll(fds, count, timeout);
	if (fds[0].revents)
		take_signal(guard);
	upstream_pass_output(&guard->upstream);
	if (fds[2].revents)
		guard_requests_take(guard);
	if (fds[2].revents && guard->upstream.server.pid == 0)
		guard_watch_restore(guard);
}

/* The server may die while the kernel looks for partitions: it is started again as ever, or that
 * would wait for one in vain. */
bool
guard_watch_settle(struct guard *guard, GError **error)
{
	struct settling settling;
	bool lost = false;

	if (!settling_begin(&settling, &guard->attachment, error))
		return false;
	while (!settling_wait(&settling, RETRY_MS)) {
		g_autofree char *why = NULL;
		g_autoptr(GError) not_yet = NULL;
		bool crashed;

		upstream_pass_output(&guard->upstream);
		if (!lost && upstream_is_lost(&guard->upstream, &crashed, &why)) {
			guard_log_loss(guard, why);
			lost = true;
		}
		/* EINVAL: it is being detached. */
		if (lost && (guard_restore(guard, &not_yet) || failure_is(not_yet, EINVAL)))
			lost = false;
	}
	if (!settling_end(&settling, error))
		return false;
	if (lost)
		guard_watch_restore(guard);
	return true;
}

void
guard_watch(struct guard *guard)
{
	while (attachment_is_there(&guard->attachment)) {
		g_autofree char *why = NULL;
		bool crashed = false;

		wait_for_news(guard);
		guard_probe_unseen(guard);
		if (!upstream_is_lost(&guard->upstream, &crashed, &why))
			continue;
		/* When a device is detached, its connections end a moment before the kernel lets
		 * go. */
		for (unsigned int i = 0;
		     !crashed && i < GONE_TRIES && attachment_is_there(&guard->attachment); i++)
			g_usleep(GONE_US);
		if (attachment_is_there(&guard->attachment))
			guard_log_loss(guard, why);
		guard_watch_restore(guard);
	}
}
