/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/open.h"

#include "engine/backing/ceph/rbd.h"
#include "engine/backing/file/file.h"
#include "engine/backing/http/http.h"
#include "engine/backing/image_kinds.h"
#include "engine/image_config.h"
#include "engine/layer/layer_backing.h"

#include "common/error.h"

#include <errno.h>

/* A file is the last one. */
static const struct backing_kind *const kinds[] = {&backing_rbd, &backing_http, &backing_file};

static const struct backing_kind *
backing_kind_of(const struct image_kind *facts)
{
	size_t i = 0;

	while (kinds[i]->facts != facts)
		i++;
	return kinds[i];
}

int
backing_prepare(const struct image_kind *facts, char **error)
{
	const struct backing_kind *kind = backing_kind_of(facts);

	return kind->prepare ? kind->prepare(error) : 0;
}

void
backing_release(const struct image_kind *facts)
{
	const struct backing_kind *kind = backing_kind_of(facts);

	if (kind->release)
		kind->release();
}

static int
backing_open_temporary(struct backing *backing, int dirfd, const char *path, unsigned int flags,
		       const struct image_config *config, char **error)
{
	struct image_config below = *config;
	struct backing base;
	int r;

	/* It may be a default, which is not only for the images that it suits. */
	if (!image_kind_is_path(path) && !(flags & BACKING_BENEATH))
		return error_set(error, -EOPNOTSUPP,
				 "%s: temporary=on is not possible: it is only for %s", path,
				 image_kind_file.all);

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
	int r;

	/* A reader has nothing to throw away. */
	if (config->temporary == TRISTATE_ON && !(flags & BACKING_READ_ONLY))
		return backing_open_temporary(backing, dirfd, path, flags, config, error);
	r = backing_kind_of(facts)->open(backing, dirfd, path, flags, config, error);
	if (r < 0 || facts != &image_kind_file)
		return r;
	r = layer_backing_adopt(backing, config, error);
	if (r < 0)
		backing_close(backing);
	return r;
}
