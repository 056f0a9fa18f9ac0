/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/open.h"

#include "engine/backing/ceph/rbd.h"
#include "engine/backing/file/file.h"
#include "engine/backing/image_kinds.h"
#include "engine/layer/layer_backing.h"

/* A file is the last one. */
static const struct backing_kind *const kinds[] = {&backing_rbd, &backing_file};

int
backing_open(struct backing *backing, int dirfd, const char *path, unsigned int flags,
	     const struct image_config *config, char **error)
{
	const struct image_kind *facts =
		flags & BACKING_BENEATH ? &image_kind_file : image_kind_of(path);
	size_t i = 0;
	int r;

	while (kinds[i]->facts != facts)
		i++;
	r = kinds[i]->open(backing, dirfd, path, flags, config, error);
	if (r < 0 || facts != &image_kind_file)
		return r;
	r = layer_backing_adopt(backing, config, error);
	if (r < 0)
		backing_close(backing);
	return r;
}
