/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/open.h"

#include "engine/backing/ceph/rbd.h"
#include "engine/backing/file/file.h"
#include "engine/backing/image_kinds.h"

/* A file is the last one. */
static const struct backing_kind *const kinds[] = {&backing_rbd, &backing_file};

int
backing_open(struct backing *backing, int dirfd, const char *path, unsigned int flags,
	     const struct image_config *config, char **error)
{
	const struct image_kind *facts =
		flags & BACKING_BENEATH ? &image_kind_file : image_kind_of(path);
	size_t i = 0;

	while (kinds[i]->facts != facts)
		i++;
	return kinds[i]->open(backing, dirfd, path, flags, config, error);
}
