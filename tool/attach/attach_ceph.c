/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/attach/attach_ceph.h"

#include "tool/device/image_file.h"
#include "tool/failure.h"
#include "tool/link/nbd_uri.h"

#include <errno.h>

/* The first option that was given and is for images in Ceph, or NULL. */
static const char *
option_for_ceph(const struct attach_ceph *ceph)
{
	if (ceph->conf)
		return "--ceph-conf";
	if (ceph->user)
		return "--ceph-user";
	if (ceph->keyring)
		return "--ceph-keyring";
	return ceph->timeout ? "--cluster-timeout" : NULL;
}

bool
attach_ceph_check(const struct attach_ceph *ceph, const char *place, bool swap, bool nooverlap,
		  GError **error)
{
	const char *option = option_for_ceph(ceph);

	if (!image_file_in_ceph(place))
		return !option ||
		       failure(error, EINVAL,
			       "%s is for images in Ceph (rbd:POOL/IMAGE), and %s is %s", option,
			       place, nbd_uri_is(place) ? "a URI" : "a file or a block device");
	if (swap)
		return failure(error, EINVAL,
			       "--swap is not possible with %s: Ceph's library takes memory for "
			       "each request, and the network does, so that swapping out could "
			       "wait for memory that only swapping out can free",
			       place);
	return !nooverlap ||
	       failure(error, EINVAL,
		       "--nooverlap is not possible with %s: devices of other machines may have "
		       "the image, too; its exclusive lock admits one writer at a time",
		       place);
}

static void
add_path(GPtrArray *words, const char *option, const char *path)
{
	g_autofree char *absolute = g_canonicalize_filename(path, NULL);

	g_ptr_array_add(words, g_strdup_printf("%s=%s", option, absolute));
}

void
attach_ceph_add(const struct attach_ceph *ceph, GPtrArray *words)
{
	const char *conf = ceph->conf ? ceph->conf : g_getenv("CEPH_CONF");

	if (conf)
		add_path(words, "--ceph-conf", conf);
	if (ceph->user)
		g_ptr_array_add(words, g_strdup_printf("--ceph-user=%s", ceph->user));
	if (ceph->keyring)
		add_path(words, "--ceph-keyring", ceph->keyring);
	if (ceph->timeout)
		g_ptr_array_add(words, g_strdup_printf("--cluster-timeout=%u", ceph->timeout));
}
