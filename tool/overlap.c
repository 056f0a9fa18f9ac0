/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/overlap.h"

#include "tool/device.h"
#include "tool/failure.h"
#include "tool/image_file.h"
#include "tool/server_link.h"

#include "common/log.h"

#include <errno.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* A part of an image, as it is attached. */
struct part {
	uint64_t offset, end; /* bytes */
	bool read_only;
};

/* What a device of ours has of that image; false if it has none, isn't ours, or doesn't answer. */
static bool
read_part(const struct device *device, const struct stat *image, struct part *part)
{
	g_autofree char *control = server_link_path(device->backend);
	g_autoptr(GError) error = NULL;
	JsonObject *status = control && device->pid != 0 ? server_link_ask(control, "status", &error) : NULL;
	JsonArray *exports = status ? json_object_get_array_member(status, "exports") : NULL;
	bool same = false;

	if (exports && json_array_get_length(exports) == 1) {
		JsonObject *export = json_array_get_object_element(exports, 0);

		same = image_file_is(image, json_object_get_string_member_with_default(export, "device", NULL),
				     json_object_get_int_member_with_default(export, "inode", -1));
		part->offset = (uint64_t)json_object_get_int_member(export, "offset");
		part->end = part->offset + (uint64_t)json_object_get_int_member(export, "size");
		part->read_only = json_object_get_boolean_member(export, "read_only");
	}
	if (status)
		json_object_unref(status);
	else if (error)
		log_warning("--nooverlap: what /dev/%s has is not known: %s", device->name, error->message);
	return same;
}

/* In bytes; 0 if it can't be told. */
static uint64_t
image_size(const char *image, const struct stat *st)
{
	int fd = S_ISBLK(st->st_mode) ? image_file_hold(image, NULL) : -1;
	uint64_t size = S_ISBLK(st->st_mode) ? 0 : (uint64_t)st->st_size;

	if (fd >= 0) {
		ioctl(fd, BLKGETSIZE64, &size);
		close(fd);
	}
	return size;
}

static bool
check(const struct device *device, const struct part *there, const struct part *wanted, bool *same, GError **error)
{
	const uint64_t sector = MAX(device->block_size, 512);

	*same = false;
	if (there->offset >= wanted->end || wanted->offset >= there->end)
		return true;
	/* A device has whole sectors. */
	*same = there->offset == wanted->offset &&
		there->end - there->offset == (wanted->end - wanted->offset) / sector * sector;
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
	struct stat st;
	uint64_t size;

	*name = NULL;
	if (stat(image, &st) < 0)
		return failure(error, errno, "%s", g_strerror(errno));
	size = image_size(image, &st);
	wanted.end = sizelimit && offset < size && sizelimit < size - offset ? offset + sizelimit : MAX(size, offset);
	for (guint i = 0; devices && i < devices->len; i++) {
		const struct device *device = g_ptr_array_index(devices, i);
		struct part there = {0};
		bool same = false;

		if (!read_part(device, &st, &there))
			continue;
		if (!check(device, &there, &wanted, &same, error))
			return false;
		if (same && !*name)
			*name = g_strdup(device->name);
	}
	return true;
}
