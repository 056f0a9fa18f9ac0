/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/open.h"

#include "engine/backing/file/file.h"
#include "engine/backing/ceph/rbd.h"
#include "engine/backing/ceph/rbd_name.h"

#include "common/error.h"

#include <errno.h>

bool
backing_is_file(const char *path)
{
	return !rbd_name_is(path);
}

int
backing_check_options(const char *path, const struct image_config *config,
		      const struct image_config *defaults, char **error)
{
	static const struct image_config initial;
	const char *option = image_config_ceph_option(config, defaults ? defaults : &initial);

	if (!option || !backing_is_file(path))
		return 0;
	return error_set(error, -EINVAL,
			 "%s is only for images in Ceph (rbd:POOL/IMAGE), not for %s", option,
			 path);
}

int
backing_open(struct backing *backing, int dirfd, const char *path, unsigned int flags,
	     const struct image_config *config, char **error)
{
	if (backing_is_file(path) || (flags & BACKING_BENEATH))
		return file_open(backing, dirfd, path, flags, error);
	return rbd_open(backing, path, flags, config, error);
}
