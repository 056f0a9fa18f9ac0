/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon/swap.h"

#include "server/exports/exports.h"
#include "server/connection/conn_run.h"
#include "server/connection/conn.h"

#include "common/reclaim.h"

#include <stdint.h>
#include <sys/resource.h>

/* Bytes for what is allocated later, besides what connections take. */
#define HEAP ((size_t)4 << 20)

/* Without a limit, memory is set aside for this many connections. */
#define CONNECTIONS 100

/* Connections and their requests are allocated when they arrive, from a heap that has room for all.
 */
static size_t
swap_heap(const struct server_config *config)
{
	size_t connections = config->max_connections ? config->max_connections : CONNECTIONS;
	size_t each = conn_run_memory(config_tls(config) != TLS_CHOICE_OFF) +
		      CONN_REQUESTS * sizeof(struct request);

	/* reclaim_lock_memory() refuses an impossible amount, with a reason. */
	return connections < SIZE_MAX / 2 / each ? HEAP + connections * each : SIZE_MAX / 2;
}

int
swap_lock_memory(const struct server_config *config, struct exports *exports, unsigned int workers,
		 char **error)
{
	static const char way_out[] =
		"a smaller --memory, --depth or --max-connections, or fewer --threads, make it less";
	const struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
	uint64_t each = config->memory, all;
	struct offer *offer;

	/* What the workers take when they start. */
	for (size_t n = 0; (offer = exports_at(exports, n)) != NULL; n++)
		each += image_context_memory(offer->export->image);
	if (__builtin_mul_overflow(each, workers, &all))
		all = UINT64_MAX;
	/* The limit of the user that the server becomes counts from now on. */
	if (config->user)
		setrlimit(RLIMIT_MEMLOCK, &unlimited);
	return reclaim_lock_memory(swap_heap(config), all,
				   config->defaults.image.force == TRISTATE_ON, way_out, error);
}
