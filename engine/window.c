/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/window.h"

#include "common/log.h"

#include <errno.h>
#include <stdio.h>

int
window_length(const struct backing *backing, const struct image_config *config, uint64_t file_size,
	      uint64_t *length, char **error)
{
	if (config->offset > file_size) {
		if (asprintf(error, "%s: offset=%llu is behind the end of the file (%llu bytes)", backing->path,
			     (unsigned long long)config->offset, (unsigned long long)file_size) < 0)
			*error = NULL;
		return -EINVAL;
	}
	*length = file_size - config->offset;
	if (config->sizelimit && config->sizelimit < *length)
		*length = config->sizelimit;
	return 0;
}

uint64_t
window_round(const struct backing *backing, uint64_t length, unsigned int sector_size)
{
	uint64_t rest = length % sector_size;

	if (length < sector_size)
		log_warning("%s: file is smaller than %u bytes; the device may be useless or invisible for "
			    "system tools",
			    backing->path, sector_size);
	else if (rest)
		log_warning("%s: file does not end on a %u-byte sector boundary; the remaining end of the file "
			    "will be ignored",
			    backing->path, sector_size);
	return length - rest;
}
