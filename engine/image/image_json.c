/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/image/image_json.h"

#include "engine/backing/kind.h"

#include <stdio.h>
#include <sys/sysmacros.h>

static void
write_device(struct json *json, dev_t device)
{
	char text[32];

	snprintf(text, sizeof(text), "%u:%u", major(device), minor(device));
	json_put_string(json, "device", text);
}

void
json_image(struct json *json, const char *file, const struct image_status *status)
{
	json_put_string(json, "file", file);
	write_device(json, status->device);
	json_put_uint(json, "inode", status->inode);
	json_put_uint(json, "size", status->size);
	json_put_uint(json, "offset", status->offset);
	json_put_uint(json, "sizelimit", status->sizelimit);
	json_put_uint(json, "sector_size", status->sector_size);
	json_put_bool(json, "read_only", !status->writable);
	json_put_string(json, "read_only_reason", status->read_only_reason);
	json_put_string(json, "engine", status->engine);
	json_put_string(json, "engine_reason", status->engine_reason);
	json_put_bool(json, "direct_io", status->direct);
	json_put_string(json, "direct_io_reason", status->direct_reason);
	json_put_uint(json, "direct_io_align", status->direct_align);
	json_put_uint(json, "memory_align", status->memory_align);
	json_put_string(json, "page_cache", status->page_cache);
	json_put_string(json, "page_cache_reason", status->page_cache_reason);
	json_put_bool(json, "poll", status->poll);
	json_put_string(json, "poll_reason", status->poll_reason);
	json_put_bool(json, "discard", status->discard);
	json_put_string(json, "lock", status->lock);
	json_put_uint(json, "contexts", status->contexts);
	json_put_uint(json, "depth", status->depth);
	json_put_bool(json, "registered_buffers", status->registered_buffers);
	json_put_string(json, "registered_buffers_reason", status->registered_reason);
	if (status->backing->kind->put_status)
		status->backing->kind->put_status(status->backing, json);
	json_object_begin(json, "counters");
	for (unsigned int i = 0; i < COUNTERS; i++)
		json_put_uint(json, counter_rows[i].name, status->counters[i]);
	json_object_end(json);
}
