/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/changes/boot.h"

#include "common/cleanup.h"
#include "common/clock.h"

#include <fcntl.h>
#include <string.h>

void
boot_id(char *id, size_t size)
{
	int CLEANUP_CLOSE fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, id, size - 1);

	id[n > 0 ? n : 0] = '\0';
	id[strcspn(id, "\n")] = '\0';
}

int64_t
boot_age(void)
{
	return (int64_t)clock_ns(CLOCK_BOOTTIME);
}
