/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop attach: the command line, and --nooverlap.
 */
#include "tool/verb/attach.h"

#include "tool/device/device.h"
#include "tool/device/device_users.h"
#include "tool/device/image_file.h"
#include "tool/device/nbd_driver.h"
#include "tool/failure.h"
#include "tool/guard/guard.h"
#include "tool/guard/guard_files.h"
#include "tool/link/nbd_uri.h"
#include "tool/verb/attach_turn.h"
#include "tool/verb/overlap.h"
#include "tool/verb/swap_space.h"
#include "tool/verb/verb.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum {
	SMALLEST_BLOCK = 512, /* bytes, of a device; what the server wants may be more */
};

/* 0 of "nbd0". */
static int
index_of(const char *name)
{
	return (int)g_ascii_strtoull(name + strlen("nbd"), NULL, 10);
}

/* A server names the process that has the image locked; the user knows its device. */
static bool
attach_explain_failure(const struct guard_plan *plan, const struct attach_options *options,
		       const char *image, GError *failed, GError **error)
{
	g_autoptr(GError) why = NULL;

	if (failure_is(failed, ETXTBSY) && !image_file_in_ceph(image) &&
	    !overlap_find(plan->source.place, options, NULL, &why)) {
		g_error_free(failed);
		return failure(error, why->code, "%s: %s", image, why->message);
	}
	g_propagate_error(error, failed);
	return false;
}

static bool
attach_unless_found(struct guard_plan *plan, const struct attach_options *options,
		    const char *image, const char *device, GError **error)
{
	g_autofree char *name = NULL;
	GError *why = NULL;

	if (options->nooverlap && !overlap_find(plan->source.place, options, &name, &why)) {
		g_prefix_error(&why, "%s: ", image);
		g_propagate_error(error, why);
		return false;
	}
	if (name && device && plan->attachment.index != index_of(name))
		return failure(error, EBUSY,
			       "%s: it is attached to /dev/%s already; name that, or no device",
			       image, name);
	/* The device is looked at before the image. */
	if (!name &&
	    ((device && !device_check_free(device, &why)) || !guard_start(plan, &name, &why)))
		return attach_explain_failure(plan, options, image, why, error);
	if (!device || options->show)
		printf("/dev/%s\n", name);
	return true;
}

/* The server only warns about an image that is too small for a device.  What is in Ceph has no size
 * before it is open; the kernel refuses a device without a block. */
static bool
check_size(const struct attach_options *options, const char *place, GError **error)
{
	const uint64_t block = options->sector_size ? options->sector_size : SMALLEST_BLOCK,
		       offset = options->offset;
	uint64_t size;
	struct stat st;

	if (image_file_in_ceph(place))
		return true;
	if (stat(place, &st) < 0)
		return failure_errno(error, errno, "%s", place);
	size = image_file_size(place, &st);
	if (options->sizelimit > 0 && options->sizelimit < block)
		return failure(error, EINVAL,
			       "--sizelimit=%" PRIu64
			       ": a device has at least one block, of %" PRIu64 " bytes",
			       options->sizelimit, block);
	if (size == 0)
		return failure(error, EINVAL,
			       "%s is empty, and a device has at least one block, of %" PRIu64
			       " bytes: make it larger "
			       "(truncate -s)",
			       place, block);
	if (size < block)
		return failure(error, EINVAL,
			       "%s has %" PRIu64
			       " bytes, and a device at least one block, of %" PRIu64,
			       place, size, block);
	return offset <= size - block ||
	       failure(error, EINVAL,
		       "--offset=%" PRIu64 ": %s has %" PRIu64
		       " bytes, and after the offset there is no block of %" PRIu64,
		       offset, place, size, block);
}

/* If several processes with --nooverlap start at once, one attaches the image, and the others find
 * it attached. */
static bool
attach_in_turn(struct guard_plan *plan, const struct attach_options *options, const char *image,
	       const char *device, GError **error)
{
	struct attach_turn turn = {.fd = -1};
	struct stat st;
	bool attached;

	if (!plan->source.remote && !image_file_in_ceph(image) &&
	    stat(plan->source.place, &st) == 0)
		attach_turn_take(&turn, GUARD_DIRECTORY, &st, options->nooverlap);
	attached = attach_unless_found(plan, options, image, device, error);
	attach_turn_end(&turn);
	return attached;
}

static bool
attach_make_plan(const struct attach_options *options, const char *image, const char *device,
		 struct guard_plan *plan, GError **error)
{
	g_autofree char *name = device ? device_name(device, error) : NULL;
	bool remote = nbd_uri_is(image);
	char *place;

	if (device && !name)
		return false;
	if (device && options->find)
		return failure(error, EINVAL,
			       "--find takes a free device: leave it out, or name no device");
	place = remote ? g_strdup(image) : image_file_find(image, error);
	if (!place)
		return false;
	if (!remote && !check_size(options, place, error)) {
		g_free(place);
		return false;
	}
	if (!attach_options_plan(options, place, remote, plan, error))
		return false;
	plan->attachment.index = name ? index_of(name) : NBD_DRIVER_ANY;
	return swap_space_prepare(options, place, remote, error);
}

bool
attach_image(const struct attach_options *options, const char *image, const char *device,
	     GError **error)
{
	struct guard_plan plan = {.source.place = NULL};
	bool attached = attach_make_plan(options, image, device, &plan, error) &&
			attach_in_turn(&plan, options, image, device, error);

	guard_plan_fini(&plan);
	return attached;
}

static bool
run_attach(const struct verb_call *call, GError **error)
{
	return attach_image(call->options, call->operands[0], call->operands[1], error);
}

const struct verb verb_attach = {
	.name = "attach",
	.help = "make a block device of an image or an NBD export",
	.synopsis = "[OPTION]... IMAGE|URI [DEVICE]",
	.summary =
		"Makes a block device /dev/nbdN of an image file, a block device, an image in Ceph, or the export of an NBD server.",
	.rows = attach_option_rows,
	.least = 1,
	.most = 2,
	.options_size = sizeof(struct attach_options),
	.run = run_attach,
};
