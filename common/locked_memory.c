/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/locked_memory.h"

#include <sys/resource.h>
#include <unistd.h>

bool
locked_memory_is_plentiful(void)
{
	struct rlimit limit;

	return geteuid() == 0 ||
	       (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY);
}
