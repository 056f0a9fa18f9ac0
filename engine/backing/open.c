/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/open.h"

#include "engine/backing/ceph/rbd.h"
#include "engine/backing/file/file.h"
#include "engine/backing/image_kinds.h"
#include "engine/image_config.h"
#include "engine/layer/layer_backing.h"

/* A file is the last one. */
static const struct backing_kind *const kinds[] = {&backing_rbd, &backing_file};

static int
backing_open_temporary(struct backing *backing, int dirfd, const char *path, unsigned int flags,
		       const struct image_config *config, char **error)
{
	struct image_config below = *config;
	struct backing base;
	int r;

	below.temporary = TRISTATE_OFF;
	r = backing_open(&base, dirfd, path, flags | BACKING_READ_ONLY, &below, error);
	return r < 0 ? r : layer_backing_put_temporary(backing, &base, config, error);
}

int
backing_open(struct backing *backing, int dirfd, const char *path, unsigned int flags,
	     const struct image_config *config, char **error)
{
	const struct image_kind *facts =
		flags & BACKING_BENEATH ? &image_kind_file : image_kind_of(path);
	size_t i = 0;
	int r;

	/* A reader has nothing to throw away. */
	if (config->temporary == TRISTATE_ON && facts == &image_kind_file &&
	    !(flags & BACKING_READ_ONLY))
		return backing_open_temporary(backing, dirfd, path, flags, config, error);
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
