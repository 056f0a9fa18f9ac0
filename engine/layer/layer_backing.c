/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/layer/layer_backing.h"

#include "engine/backing/backing.h"
#include "engine/backing/file/file.h"
#include "engine/backing/kind.h"
#include "engine/image_config.h"
#include "engine/layer/layer.h"
#include "engine/layer/layer_keeper.h"

#include "common/error.h"
#include "common/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void
layer_close(struct backing *backing)
{
	layers_close(backing->layers);
	backing->layers = NULL;
	backing_file.close(backing);
}

/* A layer's size is what its header says. */
static int64_t
layer_size(const struct backing *backing)
{
	return (int64_t)(backing->start + backing->layers->header.size);
}

static void
layer_look(const struct backing *backing, struct backing_look *look)
{
	backing_file.look(backing, look);
	if (!look->trouble[0])
		layers_look(backing->layers, look->trouble);
}

static bool
layer_same(const struct backing *a, const struct backing *b)
{
	return backing_file.same(a, b);
}

static ssize_t
layer_peek(const struct backing *backing, void *buffer, size_t length, uint64_t offset)
{
	const uint64_t place = offset - backing->start, size = backing->layers->header.size;
	int r;

	if (place >= size)
		return 0;
	length = length < size - place ? length : (size_t)(size - place);
	r = layers_read(backing->layers, buffer, length, place);
	return r < 0 ? r : (ssize_t)length;
}

/* ---- extents: those of each file, where its bytes show */

struct layer_visit {
	extent_visit visit;
	void *data;
	uint64_t from,
		to; /* offsets of the same byte, in the file that is asked and in the layer */
};

static int
layer_visit_moved(void *data, uint64_t offset, uint64_t length, bool hole)
{
	const struct layer_visit *moved = data;

	return moved->visit(moved->data, offset - moved->from + moved->to, length, hole);
}

static int
layer_extents(const struct backing *backing, uint64_t offset, uint64_t length, bool one,
	      extent_visit visit, void *data)
{
	const struct layers *layers = backing->layers;
	const uint64_t end = offset + length;
	int r = 0;

	while (offset < end && r == 0) {
		struct layer_visit moved = {visit, data, .to = offset};
		uint8_t below;
		uint64_t until =
			backing->start + layers_run(layers, offset - backing->start,
						    end - backing->start, &below, &moved.from);

		if (below == LAYER_ZEROES) {
			r = visit(data, offset, until - offset, true);
		} else {
			const struct backing file = {.fd = below ? layers_fd(layers, below)
								 : backing->fd};

			r = backing_file.extents(&file, moved.from, until - offset, one,
						 layer_visit_moved, &moved);
		}
		if (one)
			break;
		offset = until;
	}
	return r;
}

static bool
layer_have_holes(const struct backing *backing)
{
	(void)backing;
	return true;
}

/* ---- locks: they are taken when the layer is opened, and kept until it is closed */

static int
layer_lock(struct backing *backing, const struct image_config *config, const struct lock_part *part,
	   bool writable, bool locked, char **error)
{
	(void)config;
	(void)part;
	(void)locked;
	return writable && !backing->writable
		       ? error_set(error, -EROFS, "%s: it is open for reading only", backing->path)
		       : 0;
}

static int
layer_lock_check(const struct backing *backing, const struct image_config *config,
		 const struct lock_part *part, bool writable, char **error)
{
	(void)backing;
	(void)config;
	(void)part;
	(void)writable;
	(void)error;
	return 0;
}

static void
layer_unlock(struct backing *backing)
{
	(void)backing;
}

static void
layer_put_status(const struct backing *backing, struct json *json)
{
	const struct layers *layers = backing->layers;

	json_array_begin(json, "bases");
	for (unsigned int owner = layers->top; owner-- > 0;) {
		if (layers->files[owner].path)
			json_put_string(json, NULL, layers->files[owner].path);
	}
	json_array_end(json);
	json_put_uint(json, "granule", layers->header.granule);
}

static const struct backing_kind backing_layer = {
	.facts = &image_kind_file,
	.close = layer_close,
	.size = layer_size,
	.look = layer_look,
	.same = layer_same,
	.peek = layer_peek,
	.extents = layer_extents,
	.have_holes = layer_have_holes,
	.lock = layer_lock,
	.lock_check = layer_lock_check,
	.unlock = layer_unlock,
	.put_status = layer_put_status,
};

/* ---- opening */

/* Whole granules must be whole blocks of direct I/O. */
static void
layer_check_direct(struct backing *backing)
{
	if (backing->direct_fd < 0 || backing->layers->header.granule % backing->direct_align == 0)
		return;
	snprintf(backing->direct_reason, REASON_MAX,
		 "its blocks of %u bytes are larger than the layer's granules",
		 backing->direct_align);
	close(backing->direct_fd);
	backing->direct_fd = -1;
}

/* Takes the lock that is kept until the layer is closed: nobody may share one that is written to.
 */
static int
layer_lock_file(struct backing *backing, const struct image_config *wanted, char **error)
{
	static const struct lock_part whole = {0, UINT64_MAX};
	const struct image_config config = {
		.lock = wanted->lock == LOCK_OFF ? LOCK_OFF : LOCK_AUTO,
		.force = wanted->force,
	};
	struct layer_header header;
	int r = layer_header_read(backing->fd, backing->path, &header, error);

	if (r == 0 && backing->writable && header.state == LAYER_SEALED) {
		backing->writable = false;
		snprintf(backing->read_only_reason, REASON_MAX, "the layer is sealed");
	}
	return r < 0 ? r
		     : backing_file.lock(backing, &config, &whole, backing->writable, false, error);
}

int
layer_backing_adopt(struct backing *backing, const struct image_config *config, char **error)
{
	const struct layer_wish wish = {
		.path = backing->path,
		.base_path = config->base_path,
		.force = config->force == TRISTATE_ON,
		.changed_base = config->changed_base == TRISTATE_ON,
		.lock = config->lock,
	};
	int r;

	if (backing->block_device || !layer_is_named(backing->path))
		return 0;
	r = layer_lock_file(backing, config, error);
	if (r == 0)
		r = layers_open(backing->fd, &wish, &backing->layers, error);
	if (r < 0)
		return r;
	/* From here on, backing_close() closes the chain, too. */
	backing->kind = &backing_layer;
	backing->indirect = true;
	if (backing->writable && backing->layers->header.state == LAYER_SEALED)
		return error_set(error, -EAGAIN, "%s: the layer was sealed just now; try again",
				 backing->path);
	backing->start = backing->layers->header.data_at;
	layer_check_direct(backing);
	r = layer_keeper_begin(backing->layers, backing->fd, backing->writable);
	if (r == -ENODATA)
		return error_set(error, r,
				 "%s: whether the machine has rebooted since the layer was written "
				 "to is not known: /proc/sys/kernel/random/boot_id can't be read",
				 backing->path);
	return r < 0 ? error_set(error, r, "%s: its map can't be kept: %s", backing->path,
				 strerror(-r))
		     : 0;
}
