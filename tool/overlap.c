/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/overlap.h"

#include "tool/device.h"
#include "tool/failure.h"
#include "tool/server_link.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* A part of an image, as it is wanted or attached. */
struct part {
	struct stat image;
	uint64_t offset, end; /* bytes */
	bool read_only;
};

static bool
same_image(const struct stat *a, const struct stat *b)
{
	if (S_ISBLK(a->st_mode) && S_ISBLK(b->st_mode))
		return a->st_rdev == b->st_rdev;
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* What a device of ours has; false if it isn't ours, or doesn't answer. */
static bool
read_part(const struct device *device, struct part *part)
{
	g_autofree char *control = server_link_path(device->backend);
	JsonObject *status = control && device->pid != 0 ? server_link_ask(control, "status", NULL) : NULL;
	JsonArray *exports = status ? json_object_get_array_member(status, "exports") : NULL;
	bool known = false;

	if (exports && json_array_get_length(exports) == 1) {
		JsonObject *export = json_array_get_object_element(exports, 0);

		known = stat(json_object_get_string_member(export, "file"), &part->image) == 0;
		part->offset = (uint64_t)json_object_get_int_member(export, "offset");
		part->end = part->offset + (uint64_t)json_object_get_int_member(export, "size");
		part->read_only = json_object_get_boolean_member(export, "read_only");
	}
	if (status)
		json_object_unref(status);
	return known;
}

/* Up to the size that a device would have: whole sectors. */
static void
limit_to_image(struct part *part, uint64_t sizelimit)
{
	uint64_t size = S_ISREG(part->image.st_mode) ? (uint64_t)part->image.st_size : UINT64_MAX;
	uint64_t length = size > part->offset ? size - part->offset : 0;

	if (sizelimit)
		length = MIN(length, sizelimit);
	part->end = part->offset + length;
}

static bool
check(const struct device *device, const struct part *there, const struct part *wanted, bool *same, GError **error)
{
	const uint64_t sector = MAX(device->block_size, 512);

	*same = false;
	if (!same_image(&there->image, &wanted->image) || there->offset >= wanted->end || wanted->offset >= there->end)
		return true;
	/* Of a block device, only what the server says is known. */
	*same = there->offset == wanted->offset &&
		(S_ISBLK(wanted->image.st_mode) || there->end - there->offset == (wanted->end - wanted->offset) / sector * sector);
	if (!*same)
		return failure(error, EBUSY, "a part of it overlaps with /dev/%s; detach that, or leave out --nooverlap", device->name);
	if (there->read_only && !wanted->read_only)
		return failure(error, EBUSY, "it is attached to /dev/%s, which is read-only; detach that, or use --read-only",
			       device->name);
	return true;
}

bool
overlap_find(const char *image, uint64_t offset, uint64_t sizelimit, bool read_only, char **name, GError **error)
{
	g_autoptr(GPtrArray) devices = devices_read("/sys", NULL);
	struct part wanted = {.offset = offset, .read_only = read_only};

	*name = NULL;
	if (stat(image, &wanted.image) < 0)
		return failure(error, errno, "%s", g_strerror(errno));
	limit_to_image(&wanted, sizelimit);
	for (guint i = 0; devices && i < devices->len; i++) {
		const struct device *device = g_ptr_array_index(devices, i);
		struct part there = {0};
		bool same = false;

		if (!read_part(device, &there))
			continue;
		if (!check(device, &there, &wanted, &same, error))
			return false;
		if (same && !*name)
			*name = g_strdup(device->name);
	}
	return true;
}
