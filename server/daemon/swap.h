/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --swap: the server's share of what common/reclaim.h is for: how much memory it has to lock.
 */
#ifndef SERVER_DAEMON_SWAP_H
#define SERVER_DAEMON_SWAP_H

#include "server/config/server_config.h"
#include "server/exports/exports.h"

/*
 * Locks the process's memory, and takes what connections and requests will need: to be called when
 * the exports are open, no thread has been started, and privileges are still there.  `threads` is
 * the number of workers that will be started. Returns 0, or -errno with *error a sentence that
 * names the options that make it less (caller frees).
 */
int
swap_lock_memory(const struct server_config *config, struct exports *exports, unsigned int threads,
		 char **error);

#endif
