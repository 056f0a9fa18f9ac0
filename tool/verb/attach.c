/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop attach: the command line, and --nooverlap.
 */
#include "tool/verb/attach.h"

#include "common/image_use.h"
#include "common/log.h"
#include "tool/attach/attach_plan.h"
#include "tool/device/device.h"
#include "tool/device/device_users.h"
#include "tool/device/image_file.h"
#include "tool/device/nbd_driver.h"
#include "tool/failure.h"
#include "tool/guard/guard.h"
#include "tool/guard/guard_files.h"
#include "tool/link/nbd_uri.h"
#include "tool/link/server_link.h"
#include "tool/system_file.h"
#include "tool/verb/attach_turn.h"
#include "tool/verb/swap_space.h"
#include "tool/verb/verb.h"

#include <errno.h>
#include <glib.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- devices that are attached to a part of the image already, for --nooverlap */

/* A part of an image, as it is attached. */
struct part {
	uint64_t offset, end; /* bytes */
	bool read_only;
};

/* The part of that image that is attached to a device of nbdloop's; false if the device has no part
 * of it, is not nbdloop's, or its server does not answer. */
static bool
read_part(const struct device *device, const struct stat *image, struct part *part)
{
	g_autoptr(GError) error = NULL;
	json_auto_t *status = server_link_status(device->backend, &error);
	json_t *export = server_link_export(status);
	bool same = false;

	if (export) {
		/* A temporary clone is a disk of its own. */
		same = image_file_is_export(image, export) &&
		       !json_is_true(json_object_get(export, "temporary"));
		part->offset = (uint64_t)json_integer_value(json_object_get(export, "offset"));
		part->end = part->offset +
			    (uint64_t)json_integer_value(json_object_get(export, "size"));
		part->read_only = json_is_true(json_object_get(export, "read_only"));
	}
	if (error)
		log_warning("the image of /dev/%s is not known: %s", device->name, error->message);
	return same;
}

/* Whether a device does not conflict with the wanted part, or, with `nooverlap`, can be used in its
 * place; else an error gives the reason.  *same: the device has just that part. */
static bool
check_device(const struct device *device, const struct part *there, const struct part *wanted,
	     bool nooverlap, bool *same, GError **error)
{
	const bool writes = !there->read_only || !wanted->read_only;
	const uint64_t sector = MAX(device->block_size, 512);

	*same = false;
	if (there->offset >= wanted->end || wanted->offset >= there->end || (!nooverlap && !writes))
		return true;
	/* A device has whole sectors. */
	*same = there->offset == wanted->offset &&
		there->end - there->offset == (wanted->end - wanted->offset) / sector * sector;
	if (!*same)
		return failure(
			error, EBUSY,
			"another part of it, which overlaps, is attached already, as /dev/%s; detach that%s",
			device->name, writes ? "" : ", or leave out --nooverlap");
	if (there->read_only && !wanted->read_only)
		return failure(
			error, EBUSY,
			"it is attached already, as /dev/%s, which is read-only; detach that, or use --read-only",
			device->name);
	return nooverlap ||
	       failure(error, EBUSY,
		       "it is attached already, as /dev/%s; detach that, or use -L to use it",
		       device->name);
}

/* Loop devices, whatever their current sizes. */
static bool
check_loops(const struct stat *st, const struct part *wanted, GError **error)
{
	const struct image_identity image = image_file_identity(st);
	const struct image_part part = {
		.device = image.device,
		.inode = image.inode,
		.offset = wanted->offset,
		.end = wanted->end,
	};
	struct image_use use;

	if (!image_use_find(system_file_root(), &part, &use) || !use.device[0] ||
	    (wanted->read_only && !use.writes))
		return true;
	return failure(
		error, EBUSY,
		"a part of it, or all, is attached already, to /dev/%s; detach that, or use --force",
		use.device);
}

static bool
find_part(const char *image, const struct attach_options *options, struct part *part,
	  struct stat *st, GError **error)
{
	const uint64_t offset = options->offset, limit = options->sizelimit;
	uint64_t size;

	if (stat(image, st) < 0)
		return failure(error, errno, "%s", g_strerror(errno));
	size = image_file_size(image, st);
	part->offset = offset;
	part->end = limit && offset < size && limit < size - offset ? offset + limit
								    : MAX(size, offset);
	part->read_only = options->read_only;
	return true;
}

/*
 * Looks for a device of nbdloop's that has a part of this image in common with the offset and
 * sizelimit of `wanted`.  *name gets "nbd0" if a device has just that part, and may be written to
 * or need not be; NULL if there is none.  An error if a device has another part, or is read-only
 * when that isn't wanted; or if a loop device has a part, and one of both may be written to. Caller
 * frees *name.
 *
 * `name` NULL, for an image that turned out to be locked: an error that names the device of
 * nbdloop's that has a part in common, if one of both may be written to.
 */
static bool
overlap_find(const char *image, const struct attach_options *options, char **name, GError **error)
{
	g_autoptr(GPtrArray) devices = devices_read_attached(NULL);
	struct part wanted = {0};
	struct stat st;

	if (name)
		*name = NULL;
	if (!find_part(image, options, &wanted, &st, error) ||
	    (name && !options->force && !check_loops(&st, &wanted, error)))
		return false;
	for (guint i = 0; devices && i < devices->len; i++) {
		const struct device *device = g_ptr_array_index(devices, i);
		struct part there = {0};
		bool same = false;

		if (!read_part(device, &st, &there))
			continue;
		if (!check_device(device, &there, &wanted, name != NULL, &same, error))
			return false;
		if (same && name && !*name)
			*name = g_strdup(device->name);
	}
	return true;
}

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

	if (failure_is(failed, ETXTBSY) && image_file_is_here(image) &&
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
			       "%s: it is attached to /dev/%s already: name that device, or none",
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

	if (!image_file_is_here(place))
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

	if (!plan->source.remote && image_file_is_here(image) && stat(plan->source.place, &st) == 0)
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
attach_check(const struct verb_call *call, GError **error)
{
	const struct attach_options *options = call->options;

	if (call->count > 1 && options->find)
		return failure(error, EINVAL,
			       "--find chooses a free device: leave it out, or name no device");
	return attach_options_check(options, call->operands[0], error);
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
		"Makes a block device /dev/nbdN of an image (a file, a block device, or an image in Ceph), or of the export of an NBD server.",
	.rows = attach_option_rows,
	.least = 1,
	.most = 2,
	.options_size = sizeof(struct attach_options),
	.check = attach_check,
	.run = run_attach,
};
