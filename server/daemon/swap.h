/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --swap: how much memory the server has to lock.
 */
#ifndef SERVER_DAEMON_SWAP_H
#define SERVER_DAEMON_SWAP_H

struct exports;
struct server_config;

/*
 * Locks the process's memory (common/reclaim.h), and takes what connections and requests will need.
 * To be called when the exports are open, no thread has been started, and privileges are still
 * there. `workers`: how many there will be. Returns 0, or -errno with *error a sentence that
 * names the options that reduce the need (caller frees).
 */
int
swap_lock_memory(const struct server_config *config, struct exports *exports, unsigned int workers,
		 char **error);

#endif
