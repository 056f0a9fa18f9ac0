/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/open.h"

#include "engine/backing/file.h"

int
backing_open(struct backing *backing, int dirfd, const char *path, unsigned int flags, char **error)
{
	return file_open(backing, dirfd, path, flags, error);
}
