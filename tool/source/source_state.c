/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/source/source_state.h"

#include <poll.h>
#include <sys/socket.h>

bool
source_lacks(const struct source *source, unsigned int i)
{
	return source->connections[i].fd < 0 && !source->connections[i].unseen;
}

struct source_connection **
source_lacking(struct source *source, unsigned int *count)
{
	struct source_connection **all =
		g_new(struct source_connection *, source->plan->connections);

	*count = 0;
	for (unsigned int i = 0; i < source->plan->connections; i++) {
		if (source_lacks(source, i))
			all[(*count)++] = &source->connections[i];
	}
	return all;
}

unsigned int
source_close_ended(struct source *source)
{
	unsigned int ended = 0;

	for (unsigned int i = 0; i < source->plan->connections; i++) {
		struct pollfd state = {.fd = source->connections[i].fd, .events = POLLRDHUP};

		if (state.fd < 0 || poll(&state, 1, 0) == 0)
			continue;
		source_connection_close(&source->connections[i]);
		ended++;
	}
	return ended;
}

void
source_close_connections(struct source *source)
{
	for (unsigned int i = 0; i < source->plan->connections; i++)
		source_connection_close(&source->connections[i]);
}

void
source_end_connections(struct source *source)
{
	for (unsigned int i = 0; i < source->plan->connections; i++) {
		if (source->connections[i].fd >= 0)
			shutdown(source->connections[i].fd, SHUT_RDWR);
	}
	source_close_connections(source);
}

/* ---- those that only the kernel has */

void
source_set_unseen(struct source *source)
{
	for (unsigned int i = 0; i < source->plan->connections; i++)
		source->connections[i].unseen = true;
}

unsigned int
source_unseen(const struct source *source)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < source->plan->connections; i++)
		count += source->connections[i].unseen;
	return count;
}

void
source_lose_unseen(struct source *source, unsigned int dead)
{
	/* The kernel shuts down connections that it finds dead. */
	dead -= dead ? MIN(dead, source_close_ended(source)) : 0;
	for (unsigned int i = 0; dead > 0 && i < source->plan->connections; i++) {
		dead -= source->connections[i].unseen;
		source->connections[i].unseen = false;
	}
}
