/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How much memory this process may lock (RLIMIT_MEMLOCK), which is what the kernel charges for
 * registered buffers.
 */
#ifndef COMMON_LOCKED_MEMORY_H
#define COMMON_LOCKED_MEMORY_H

#include <stdbool.h>

/*
 * Root, or no limit.  Who may lock only a little (an ordinary user: 8 MiB) spends it on many
 * contexts' small requests, for which it matters, and not on a few contexts' large ones.
 */
bool
locked_memory_is_plentiful(void);

#endif
