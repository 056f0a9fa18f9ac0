/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/image/window.h"

#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <string.h>

int
window_length(const struct backing *backing, const struct image_config *config, uint64_t file_size,
	      uint64_t *length, char **error)
{
	if (config->offset > file_size) {
		return error_set(error, -EINVAL,
				 "%s: offset=%llu is past the end of the file (%llu bytes)",
				 backing->path, (unsigned long long)config->offset,
				 (unsigned long long)file_size);
	}
	*length = file_size - config->offset;
	if (config->sizelimit && config->sizelimit < *length)
		*length = config->sizelimit;
	return 0;
}

int
window_measure(const struct backing *backing, const struct image_config *config, int64_t file_size,
	       uint64_t *length, char **error)
{
	if (file_size >= 0)
		return window_length(backing, config, (uint64_t)file_size, length, error);
	return error_set(error, (int)file_size, "%s: its size can't be read: %s", backing->path,
			 strerror((int)-file_size));
}

/* Warns of bytes after the last sector. The cause may be the window, if the file itself is a
 * multiple of a sector. */
static void
window_warn_rest(const struct backing *backing, const struct image_config *config, uint64_t length,
		 unsigned int sector_size)
{
	const unsigned long long rest = length % sector_size, offset = config->offset,
				 limit = config->sizelimit;
	const char *bytes = rest == 1 ? "byte" : "bytes";

	if (limit == length)
		log_warning(
			"%s: sizelimit=%llu is no multiple of the sector size, %u bytes; the last %llu %s can't be reached",
			backing->path, limit, sector_size, rest, bytes);
	else if (offset % sector_size && (offset + length) % sector_size == 0)
		log_warning(
			"%s: offset=%llu is no multiple of the sector size, %u bytes; the last %llu %s can't be reached",
			backing->path, offset, sector_size, rest, bytes);
	else
		log_warning(
			"%s: file does not end on a %u-byte sector boundary; the last %llu %s can't be "
			"reached",
			backing->path, sector_size, rest, bytes);
}

uint64_t
window_round(const struct backing *backing, const struct image_config *config, uint64_t length,
	     unsigned int sector_size)
{
	uint64_t rest = length % sector_size;

	if (length == 0 && sector_size == 1)
		log_warning("%s: file is empty", backing->path);
	else if (length < sector_size)
		log_warning(
			"%s: file is smaller than %u bytes; the device may be useless or invisible for "
			"system tools",
			backing->path, sector_size);
	else if (rest)
		window_warn_rest(backing, config, length, sector_size);
	return length - rest;
}
