/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/block_queue.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/sysmacros.h>

int
block_queue_read(dev_t device, const char *name, uint64_t *value)
{
	static const char *const places[] = {"queue", "../queue"};

	for (size_t i = 0; i < 2; i++) {
		char path[128];
		FILE *f;
		int n;

		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s/%s", major(device),
			 minor(device), places[i], name);
		f = fopen(path, "re");
		if (!f)
			continue;
		n = fscanf(f, "%" SCNu64, value);
		fclose(f);
		if (n == 1)
			return 0;
	}
	return -ENOENT;
}
