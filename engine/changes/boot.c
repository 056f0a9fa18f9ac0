/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/changes/boot.h"

#include "common/cleanup.h"
#include "common/clock.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static char present[64];

/* It never changes. */
static void
boot_read_id(void)
{
	int CLEANUP_CLOSE fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, present, sizeof(present) - 1);

	present[n > 0 ? n : 0] = '\0';
	present[strcspn(present, "\n")] = '\0';
}

void
boot_id(char *id, size_t size)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, boot_read_id);
	snprintf(id, size, "%s", present);
}

void
boot_clocks(int64_t *now, int64_t *age)
{
	*now = (int64_t)clock_ns(CLOCK_REALTIME);
	*age = (int64_t)clock_ns(CLOCK_BOOTTIME);
}
