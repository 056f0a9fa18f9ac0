/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/source/source.h"

#include "tool/source/export_source.h"
#include "tool/source/image_source.h"

#include <sys/socket.h>

enum {
	RESERVE_PART = 8, /* a connection is replaced when it has this part of its bytes left */
	/* No connection is faster, 16 GB/s; so the reserve lasts for a second at least. */
	FASTEST_PER_MS = 16 << 20,
	SOONEST_LOOK_MS = 1000,
	LATEST_LOOK_MS = 60000,
};

void
source_init(struct source *source, const struct source_plan *plan, char *control, char *listener)
{
	*source = (struct source){
		.kind = plan->remote ? &export_source_kind : &image_source_kind,
		.plan = plan,
		.place = g_strdup(plan->place),
		.direct_io = plan->direct_io,
		.iops_limit = plan->iops_limit,
		.bandwidth_limit = plan->bandwidth_limit,
		.control = control,
		.listener = listener,
		.connections = g_new0(struct source_connection, plan->connections),
	};
	for (unsigned int i = 0; i < plan->connections; i++)
		source->connections[i].fd = -1;
	source->kind->init(source);
}

void
source_init_trial(struct source *trial, const struct source *source, const char *image)
{
	source_init(trial, source->plan, NULL, g_strdup(source->listener));
	g_free(trial->place);
	trial->place = g_strdup(image);
	trial->direct_io = source->direct_io;
	trial->iops_limit = source->iops_limit;
	trial->bandwidth_limit = source->bandwidth_limit;
	trial->read_only = true;
}

bool
source_open(struct source *source, GError **error)
{
	return source->kind->open(source, error);
}

void
source_pass_output(struct source *source)
{
	if (source->kind->listen)
		source->kind->listen(source);
}

bool
source_is_lost(struct source *source, bool *crashed, char **why)
{
	return source->kind->is_lost(source, crashed, why);
}

bool
source_is_fenced(const struct source *source)
{
	return source->kind->is_fenced && source->kind->is_fenced(source);
}

bool
source_is_in_server(const struct source *source)
{
	return source->kind->is_in_server && source->kind->is_in_server(source);
}

struct source_facts
source_facts_of(const struct source *source)
{
	struct source_facts facts = {.flags = 0};

	source->kind->note_facts(source, &facts);
	return facts;
}

/* What a connection has left before the reserve, in which it is replaced. */
static uint64_t
left_of(const struct source_connection *connection)
{
	const uint64_t left = source_connection_bytes_left(connection),
		       reserve = connection->most_bytes / RESERVE_PART;

	return left == UINT64_MAX ? left : left - MIN(left, reserve);
}

unsigned int
source_used_up(const struct source *source, int *next_ms)
{
	uint64_t least = UINT64_MAX;
	unsigned int count = 0;

	for (unsigned int i = 0; i < source->plan->connections; i++) {
		const uint64_t left = left_of(&source->connections[i]);

		count += left == 0;
		least = MIN(least, left);
	}
	*next_ms = least == UINT64_MAX
			   ? -1
			   : (int)CLAMP(least / FASTEST_PER_MS, SOONEST_LOOK_MS, LATEST_LOOK_MS);
	return count;
}

void
source_end_used_up(struct source *source)
{
	for (unsigned int i = 0; i < source->plan->connections; i++) {
		struct source_connection *connection = &source->connections[i];

		if (left_of(connection) > 0)
			continue;
		shutdown(connection->fd, SHUT_RDWR);
		source_connection_close(connection);
	}
}

void
source_release(struct source *source)
{
	if (source->kind->release)
		source->kind->release(source);
}

void
source_break(struct source *source)
{
	if (source->kind->kill)
		source->kind->kill(source);
	for (unsigned int i = 0; i < source->plan->connections; i++) {
		if (source->connections[i].fd >= 0)
			shutdown(source->connections[i].fd, SHUT_RDWR);
	}
}

void
source_drop(struct source *source, const bool *is_new)
{
	for (unsigned int i = 0; i < source->plan->connections; i++) {
		if (!is_new[i])
			continue;
		/* The kernel may have taken it already. */
		shutdown(source->connections[i].fd, SHUT_RDWR);
		source_connection_close(&source->connections[i]);
	}
	if (source->kind->drop)
		source->kind->drop(source);
}

void
source_end(struct source *source)
{
	source_close_connections(source);
	source->kind->end(source);
}

void
source_fini(struct source *source)
{
	source_end(source);
	source->kind->fini(source);
	g_free(source->connections);
	g_free(source->control);
	g_free(source->listener);
	g_free(source->place);
}
