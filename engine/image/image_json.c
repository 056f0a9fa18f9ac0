/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/image/image_json.h"

#include <stdio.h>
#include <sys/sysmacros.h>

static void
write_device(struct json *json, dev_t device)
{
	char text[32];

	snprintf(text, sizeof(text), "%u:%u", major(device), minor(device));
	json_string(json, "device", text);
}

void
json_image(struct json *json, const char *file, const struct image_status *status)
{
	json_string(json, "file", file);
	write_device(json, status->device);
	json_uint(json, "inode", status->inode);
	json_uint(json, "size", status->size);
	json_uint(json, "offset", status->offset);
	json_uint(json, "sizelimit", status->sizelimit);
	json_uint(json, "sector_size", status->sector_size);
	json_bool(json, "read_only", !status->writable);
	json_string(json, "engine", status->engine);
	json_string(json, "engine_reason", status->engine_reason);
	json_bool(json, "direct_io", status->direct);
	json_string(json, "direct_io_reason", status->direct_reason);
	json_uint(json, "direct_io_align", status->direct_align);
	json_uint(json, "memory_align", status->memory_align);
	json_bool(json, "poll", status->poll);
	json_string(json, "poll_reason", status->poll_reason);
	json_bool(json, "discard", status->discard);
	json_string(json, "lock", status->lock);
	json_uint(json, "contexts", status->contexts);
	json_uint(json, "depth", status->depth);
	json_bool(json, "registered_buffers", status->registered_buffers);
	json_object_begin(json, "counters");
	for (unsigned int i = 0; i < COUNTERS; i++)
		json_uint(json, counter_names[i], status->counters[i]);
	json_object_end(json);
}
