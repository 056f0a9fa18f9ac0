/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much memory this process may lock (RLIMIT_MEMLOCK). The kernel charges registered buffers to
 * this limit.
 */
#ifndef COMMON_LOCKED_MEMORY_H
#define COMMON_LOCKED_MEMORY_H

#include <stdbool.h>

/*
 * Returns whether this process has CAP_IPC_LOCK, as root usually has, or no limit. A process that
 * may lock only little memory (8 MiB for an ordinary user) uses it for the small requests of many
 * contexts, where it matters, rather than for the large requests of a few contexts.
 */
bool
locked_memory_is_plentiful(void);

#endif
