/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon/swap.h"

#include "server/serve/conn.h"
#include "server/serve/conn_state.h"
#include "server/serve/request_state.h"

#include "common/reclaim.h"

#include <stdint.h>
#include <sys/resource.h>

/* Bytes for what is allocated later, besides what connections take. */
#define HEAP ((size_t)4 << 20)

/* With no limit of connections, memory is set aside for so many. */
#define CONNECTIONS 100

/* Connections, and requests of theirs, are made when they come, from a heap that has room for all.
 */
static size_t
heap(const struct server_config *config)
{
	size_t connections = config->max_connections ? config->max_connections : CONNECTIONS;
	size_t each = conn_memory() + CONN_REQUESTS * sizeof(struct request);

	/* More than there can be is refused, with a reason. */
	return connections < SIZE_MAX / 2 / each ? HEAP + connections * each : SIZE_MAX / 2;
}

/* What the workers take when they start. */
static uint64_t
workers_memory(const struct server_config *config, struct exports *exports, unsigned int threads)
{
	uint64_t each = config->memory, all;
	struct served *served;

	for (size_t n = 0; (served = exports_at(exports, n)) != NULL; n++)
		each += image_context_memory(served->image);
	return __builtin_mul_overflow(each, threads, &all) ? UINT64_MAX : all;
}

int
swap_lock_memory(const struct server_config *config, struct exports *exports, unsigned int threads,
		 char **error)
{
	static const char way_out[] =
		"a smaller --memory, --depth or --max-connections, or fewer --threads, make it less";
	const struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};

	/* What another user may lock counts from now on. */
	if (config->user)
		setrlimit(RLIMIT_MEMLOCK, &unlimited);
	return reclaim_lock_memory(heap(config), workers_memory(config, exports, threads),
				   config->defaults.image.force == TRISTATE_ON, way_out, error);
}
