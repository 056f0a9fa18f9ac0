/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/upstream_state.h"

#include <poll.h>
#include <sys/socket.h>

bool
upstream_lacks(const struct upstream *upstream, unsigned int i)
{
	return upstream->connections[i].fd < 0 && !upstream->connections[i].unseen;
}

struct upstream_connection **
upstream_lacking(struct upstream *upstream, unsigned int *count)
{
	struct upstream_connection **all =
		g_new(struct upstream_connection *, upstream->plan->connections);

	*count = 0;
	for (unsigned int i = 0; i < upstream->plan->connections; i++) {
		if (upstream_lacks(upstream, i))
			all[(*count)++] = &upstream->connections[i];
	}
	return all;
}

unsigned int
upstream_close_ended(struct upstream *upstream)
{
	unsigned int ended = 0;

	for (unsigned int i = 0; i < upstream->plan->connections; i++) {
		struct pollfd state = {.fd = upstream->connections[i].fd, .events = POLLRDHUP};

		if (state.fd < 0 || poll(&state, 1, 0) == 0)
			continue;
		upstream_connection_close(&upstream->connections[i]);
		ended++;
	}
	return ended;
}

void
upstream_close_connections(struct upstream *upstream)
{
	for (unsigned int i = 0; i < upstream->plan->connections; i++)
		upstream_connection_close(&upstream->connections[i]);
}

void
upstream_end_connections(struct upstream *upstream)
{
	for (unsigned int i = 0; i < upstream->plan->connections; i++) {
		if (upstream->connections[i].fd >= 0)
			shutdown(upstream->connections[i].fd, SHUT_RDWR);
	}
	upstream_close_connections(upstream);
}

/* ---- those that only the kernel has */

void
upstream_set_unseen(struct upstream *upstream)
{
	for (unsigned int i = 0; i < upstream->plan->connections; i++)
		upstream->connections[i].unseen = true;
}

unsigned int
upstream_unseen(const struct upstream *upstream)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < upstream->plan->connections; i++)
		count += upstream->connections[i].unseen;
	return count;
}

void
upstream_lose_unseen(struct upstream *upstream, unsigned int dead)
{
	/* The kernel shuts down connections that it finds dead. */
	dead -= dead ? MIN(dead, upstream_close_ended(upstream)) : 0;
	for (unsigned int i = 0; dead > 0 && i < upstream->plan->connections; i++) {
		dead -= upstream->connections[i].unseen;
		upstream->connections[i].unseen = false;
	}
}
