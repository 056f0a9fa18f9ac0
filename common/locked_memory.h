/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much memory this process may lock (RLIMIT_MEMLOCK). The kernel charges registered buffers to
 * this limit.
 */
#ifndef COMMON_LOCKED_MEMORY_H
#define COMMON_LOCKED_MEMORY_H

#include <stdbool.h>

/*
 * Returns whether this process has CAP_IPC_LOCK, as root usually has, or no limit. An ordinary user
 * may often lock only 8 MiB. That memory then serves the small requests of many contexts, where it
 * matters, and not the large requests of a few contexts.
 */
bool
locked_memory_is_plentiful(void);

#endif
