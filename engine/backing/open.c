/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/open.h"

#include "engine/backing/ceph/rbd.h"
#include "engine/backing/file/file.h"
#include "engine/backing/http/http.h"
#include "engine/backing/image_kinds.h"

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

int
backing_open(struct backing *backing, int dirfd, const char *path, unsigned int flags,
	     const struct image_config *config, char **error)
{
	const struct image_kind *facts =
		flags & BACKING_BENEATH ? &image_kind_file : image_kind_of(path);

	return backing_kind_of(facts)->open(backing, dirfd, path, flags, config, error);
}
