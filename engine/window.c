/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/window.h"

#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

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

int
window_measure(const struct backing *backing, const struct image_config *config, uint64_t *length, char **error)
{
	int64_t file_size = backing_size(backing);

	if (file_size >= 0)
		return window_length(backing, config, (uint64_t)file_size, length, error);
	if (asprintf(error, "%s: its size can't be read: %s", backing->path, strerror((int)-file_size)) < 0)
		*error = NULL;
	return (int)file_size;
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
