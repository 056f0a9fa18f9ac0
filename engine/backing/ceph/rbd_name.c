/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/ceph/rbd_name.h"

#include "common/error.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "rbd:"

static const char *const options[] = {"ceph-conf", "ceph-user",  "ceph-keyring",
				      "ceph-lock", "ceph-fence", "cluster-timeout",
				      NULL};

const struct image_kind image_kind_ceph = {
	.name = "ceph",
	.one = "an image in Ceph",
	.all = "images in Ceph (rbd:POOL/IMAGE)",
	.prefixes = {PREFIX},
	.library = "Ceph's library",
	.unconfined = true,
	.options = options,
	.option_from = {"ceph-conf", "CEPH_CONF"},
	.lock = "ceph-lock=start",
	.fence = "ceph-fence",
};

/* Ends a text at `at`. Returns the rest, or NULL if `at` is NULL. */
static char *
name_cut(char *at)
{
	if (!at)
		return NULL;
	*at = '\0';
	return at + 1;
}

static bool
name_is_empty(const char *part)
{
	return part && part[0] == '\0';
}

int
rbd_name_parse(const char *path, struct rbd_name *name, char **error)
{
	char *text = strdup(path + strlen(PREFIX));
	char *second, *third;

	*name = (struct rbd_name){.text = text};
	if (!text)
		return error_set(error, -ENOMEM, "%s: %s", path, strerror(ENOMEM));
	name->snapshot = name_cut(strchr(text, '@'));
	name->pool = text;
	second = name_cut(strchr(text, '/'));
	third = second ? name_cut(strchr(second, '/')) : NULL;
	name->space = third ? second : NULL;
	name->image = third ? third : second;
	if (name->image && !strchr(name->image, '/') && !name_is_empty(name->pool) &&
	    !name_is_empty(name->space) && !name_is_empty(name->image) &&
	    !name_is_empty(name->snapshot))
		return 0;
	free(text);
	*name = (struct rbd_name){0};
	return error_set(
		error, -EINVAL,
		"%s: an image in Ceph is rbd:POOL/IMAGE, rbd:POOL/NAMESPACE/IMAGE, or one of these with @SNAPSHOT at the end",
		path);
}
