/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/verb/overlap.h"

#include "tool/device/device.h"
#include "tool/device/image_file.h"
#include "tool/failure.h"
#include "tool/link/server_link.h"
#include "tool/system_file.h"

#include "common/image_use.h"
#include "common/log.h"

#include <errno.h>
#include <sys/stat.h>

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
		same = image_file_is_export(image, export);
		part->offset = (uint64_t)json_integer_value(json_object_get(export, "offset"));
		part->end = part->offset +
			    (uint64_t)json_integer_value(json_object_get(export, "size"));
		part->read_only = json_is_true(json_object_get(export, "read_only"));
	}
	if (error)
		log_warning("the image of /dev/%s is not known: %s", device->name, error->message);
	return same;
}

/* A device has whole sectors. */
static bool
is_same(const struct device *device, const struct part *there, const struct part *wanted)
{
	const uint64_t sector = MAX(device->block_size, 512);

	return there->offset == wanted->offset &&
	       there->end - there->offset == (wanted->end - wanted->offset) / sector * sector;
}

/* Whether a device does not conflict with the wanted part, or, with `nooverlap`, can be used in its
 * place; else an error gives the reason.  *same: the device has just that part. */
static bool
check_device(const struct device *device, const struct part *there, const struct part *wanted,
	     bool nooverlap, bool *same, GError **error)
{
	const bool writes = !there->read_only || !wanted->read_only;

	*same = false;
	if (there->offset >= wanted->end || wanted->offset >= there->end || (!nooverlap && !writes))
		return true;
	*same = is_same(device, there, wanted);
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

bool
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
