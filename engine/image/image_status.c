/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/image/image_status.h"

#include "engine/backing/kind.h"
#include "engine/context/pool.h"
#include "engine/io/backend.h"
#include "engine/io/image_state.h"

#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

static void
status_page_cache_reason(const struct image *image, bool direct, char reason[REASON_MAX])
{
	if (direct)
		snprintf(reason, REASON_MAX, "no effect with direct I/O");
	else if (image->sweeper && !atomic_load(&image->dontcache))
		snprintf(reason, REASON_MAX, "without RWF_DONTCACHE: %.*s", REASON_MAX - 32,
			 image->dontcache_reason[0] ? image->dontcache_reason
						    : "the file system refused a write with it");
}

void
image_status(struct image *image, struct image_status *status)
{
	*status = (struct image_status){
		.path = image->backing.path,
		.backing = &image->backing,
		.size = image_size(image),
		.offset = image_offset(image),
		.sizelimit = image->config.sizelimit,
		.device = image->backing.device,
		.inode = image->backing.inode,
		.sector_size = image->sector_size,
		.engine = image->backing.kind->engine ? image->backing.kind->engine
						      : image->backend->name,
		.poll = image->backend->polled && image_direct(image),
		.discard = image_discards(image),
		.lock = "not taken yet",
		.depth = image->config.depth,
	};
	memcpy(status->engine_reason, image->engine_reason, REASON_MAX);
	memcpy(status->poll_reason, image->poll_reason, REASON_MAX);
	memcpy(status->read_only_reason, image->backing.read_only_reason, REASON_MAX);
	status->page_cache = image->sweeper ? "drop" : "keep";
	if (image->backing.direct_fd >= 0) {
		status->direct_align = image->backing.direct_align;
		status->memory_align = image->backing.memory_align;
	}
	pthread_mutex_lock(&image->facts);
	status->direct = image_direct(image);
	memcpy(status->direct_reason, image->direct_reason, REASON_MAX);
	status_page_cache_reason(image, status->direct, status->page_cache_reason);
	/* With a reader's lock, its clients can't write (nbdkit -r). */
	status->writable = image->backing.writable && (!image->locked || image->locked_writable);
	if (image->locked)
		status->lock = lock_resolved_name(image->config.lock, image->locked_writable);
	pthread_mutex_unlock(&image->facts);
	status->contexts = pool_count(image, status->counters, &status->registered_buffers,
				      &status->registered_reason);
}

/* Returns " (reason)", or "" if there is no reason. */
static const char *
status_in_brackets(const char *reason, char text[REASON_MAX + 4])
{
	text[0] = '\0';
	if (reason[0])
		snprintf(text, REASON_MAX + 4, " (%s)", reason);
	return text;
}

/* Returns the part of the start-up line about the page cache; "" if the image has none, or if
 * direct I/O is on and the user did not ask for anything. */
static const char *
status_page_cache_words(const struct image *image, const struct image_status *status,
			char text[REASON_MAX + 32])
{
	char reason[REASON_MAX + 4];

	if (!image->backing.page_cache ||
	    (status->direct && image->config.page_cache == PAGE_CACHE_AUTO))
		return "";
	snprintf(text, REASON_MAX + 32, ", page cache %s%s", status->page_cache,
		 status_in_brackets(status->page_cache_reason, reason));
	return text;
}

char *
image_summary(struct image *image, bool *degraded)
{
	char engine[REASON_MAX + 4], direct[REASON_MAX + 4], cache[REASON_MAX + 32],
		poll[REASON_MAX + 4], sector[REASON_MAX + 4], access[REASON_MAX + 4];
	struct image_status status;
	char *text;

	image_status(image, &status);
	*degraded = (status.engine_reason[0] && !image->backing.in_memory) ||
		    status.poll_reason[0] || status.read_only_reason[0] ||
		    (!status.direct && image->config.direct_io != TRISTATE_OFF &&
		     image->backing.page_cache);
	if (status.direct)
		snprintf(direct, sizeof(direct), " (%u-byte blocks%s)", status.direct_align,
			 image->backing.compressed
				 ? "; what is compressed goes through the page cache"
				 : "");
	else
		status_in_brackets(status.direct_reason, direct);
	if (asprintf(
		    &text,
		    "%s: %llu bytes, engine %s%s, direct I/O %s%s%s, polling %s%s, sector size %u%s, %s%s",
		    status.path, (unsigned long long)status.size, status.engine,
		    status_in_brackets(status.engine_reason, engine), status.direct ? "on" : "off",
		    direct, status_page_cache_words(image, &status, cache),
		    status.poll ? "on" : "off", status_in_brackets(status.poll_reason, poll),
		    status.sector_size, status_in_brackets(image->sector_reason, sector),
		    status.writable ? "writable" : "read-only",
		    status_in_brackets(status.read_only_reason, access)) < 0)
		return NULL;
	return text;
}

void
json_image(struct json *json, const char *file, const struct image_status *status)
{
	char device[32];

	snprintf(device, sizeof(device), "%u:%u", major(status->device), minor(status->device));
	json_put_string(json, "file", file);
	json_put_string(json, "device", device);
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
