/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/layer/layer_backing.h"

#include "engine/backing/backing.h"
#include "engine/backing/file/file.h"
#include "engine/backing/kind.h"
#include "engine/image_config.h"
#include "engine/layer/layer.h"
#include "engine/layer/layer_keeper.h"
#include "engine/snapshot/scratch.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* .state of a temporary clone. */
struct temporary {
	struct backing base;    /* .layers NULL: they are the clone's */
	struct layer_hold hold; /* of a raw base; a layer holds its own */
	char identity[64];      /* .identity */
};

static void
temporary_free(struct temporary *temporary)
{
	layer_hold_end(&temporary->hold, temporary->base.fd);
	backing_close(&temporary->base);
	free(temporary);
}

static void
layer_close(struct backing *backing)
{
	struct temporary *temporary = steal_pointer(&backing->state);

	layers_close(steal_pointer(&backing->layers));
	if (temporary)
		temporary_free(temporary);
	backing_file.close(backing);
}

/* A layer's size is what its header says. */
static int64_t
layer_size(const struct backing *backing)
{
	return (int64_t)(backing->start + backing->layers->header.size);
}

/* The file of a temporary clone has no name, and nobody else can change it. */
static void
layer_look(const struct backing *backing, struct backing_look *look)
{
	const struct temporary *temporary = backing->state;

	backing_file.look(temporary ? &temporary->base : backing, look);
	look->size = layer_size(backing);
	if (!look->trouble[0])
		layers_look(backing->layers, look->trouble, sizeof(look->trouble));
	if (!look->trouble[0] && temporary)
		layer_hold_look(&temporary->hold, temporary->base.fd, temporary->base.path,
				look->trouble, sizeof(look->trouble));
}

/* Temporary clones have the device and inode of their base. */
static bool
layer_same(const struct backing *a, const struct backing *b)
{
	if (a->identity || b->identity)
		return a->identity && b->identity && strcmp(a->identity, b->identity) == 0;
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
	json_put_bool(json, "temporary", layers->temporary);
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

/* Sets whether the backing is meant to be a layer. A path in /proc, by which nbdloop's servers open
 * the image of a device, says nothing: the name that the file has now does. If it was renamed, its
 * beginning tells that it may be a layer, whose raw bytes must not be served. Returns 0, or -EINVAL
 * with *error. */
static int
layer_recognize(const struct backing *backing, bool *is_one, char **error)
{
	char link[64], name[4096];
	uint8_t head[8];
	ssize_t n;

	*is_one = !backing->block_device && layer_is_named(backing->path);
	if (*is_one || backing->block_device || strncmp(backing->path, "/proc/", 6) != 0)
		return 0;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", backing->fd);
	n = readlink(link, name, sizeof(name) - 1);
	name[n < 0 ? 0 : n] = '\0';
	*is_one = layer_is_named(name);
	if (*is_one || pread(backing->fd, head, sizeof(head), 0) != sizeof(head) ||
	    !layer_header_is_one(head))
		return 0;
	return error_set(error, -EINVAL,
			 "%s: it begins as a layer does, but its name does not end in .layer: "
			 "rename it if it is one; nbdloopd serves it as raw bytes by its name",
			 backing->path);
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
	bool is_one;
	int r = layer_recognize(backing, &is_one, error);

	if (r < 0 || !is_one)
		return r;
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

/* ---- temporary clones */

/* Opens an empty file without a name, as the backing. */
static int
temporary_open_file(struct backing *backing, const char *directory, uint64_t size, char **error)
{
	int CLEANUP_CLOSE fd = scratch_open(directory, error);
	char path[64];

	if (fd < 0)
		return fd;
	if (ftruncate(fd, (off_t)size) < 0)
		return error_set(error, -errno,
				 "no file of %llu bytes can be made in %s: %s; scratch=DIR names "
				 "another directory",
				 (unsigned long long)size, directory, strerror(errno));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return backing_file.open(backing, AT_FDCWD, path, 0, NULL, error);
}

/* Names the clone: for messages, and for whoever looks for the image by its device and inode, the
 * base says what it is. */
static int
temporary_name(struct backing *backing, struct temporary *temporary, const char *directory)
{
	const struct backing *base = &temporary->base;
	char *path;

	if (asprintf(&path, "temporary clone of %s in %s", base->path, directory) < 0)
		return -ENOMEM;
	free(backing->path);
	backing->path = path;
	backing->named = false;
	snprintf(temporary->identity, sizeof(temporary->identity), "%u:%u:%llu",
		 major(backing->device), minor(backing->device),
		 (unsigned long long)backing->inode);
	backing->identity = temporary->identity;
	backing->device = base->device;
	backing->inode = base->inode;
	return 0;
}

/* Puts the clone on the chain of its base. */
static int
temporary_take_layers(struct backing *backing, struct backing *base, uint64_t size)
{
	int CLEANUP_CLOSE below = fcntl(base->fd, F_DUPFD_CLOEXEC, 0);
	int r = below < 0 ? -errno : 0;

	if (r == 0 && !base->layers)
		r = layers_open_raw(base->path, size, &base->layers);
	backing->layers = steal_pointer(&base->layers);
	base->kind = &backing_file;
	if (r == 0)
		r = layers_put_temporary(backing->layers, below, backing->fd);
	if (r == 0)
		steal_fd(&below);
	return r;
}

/* Holds the base, and makes a clone on it. On failure, the caller closes the backing if it has
 * .state. */
static int
temporary_make(struct backing *backing, struct temporary *temporary,
	       const struct image_config *config, char **error)
{
	struct backing *base = &temporary->base;
	const struct layer_wish wish = {
		.path = base->path,
		.force = config->force == TRISTATE_ON,
		.lock = config->lock,
	};
	char *CLEANUP_FREE directory =
		scratch_directory(config->scratch, base->fd, base->block_device);
	int64_t end;
	int r = directory ? 0 : -ENOMEM;

	if (r == 0 && !base->layers)
		r = layer_hold_begin(&temporary->hold, base->fd, true, "temporary clone",
				     base->path, &wish, error);
	if (r < 0)
		return r;
	end = backing_size(base);
	if (end < 0)
		return error_set(error, (int)end, "%s: %s", base->path, strerror((int)-end));
	r = temporary_open_file(backing, directory, (uint64_t)end - base->start, error);
	if (r < 0)
		return r;
	backing->kind = &backing_layer;
	backing->state = temporary;
	backing->indirect = true;
	/* A read from the base may wait for a disk. */
	backing->in_memory = backing->in_memory && base->in_memory && !base->layers;
	r = temporary_name(backing, temporary, directory);
	if (r == 0)
		r = temporary_take_layers(backing, base, (uint64_t)end - base->start);
	if (r < 0)
		return error_set(error, r, "%s: %s", backing->path, strerror(-r));
	layer_check_direct(backing);
	return 0;
}

int
layer_backing_put_temporary(struct backing *backing, struct backing *base,
			    const struct image_config *config, char **error)
{
	struct temporary *temporary = calloc(1, sizeof(*temporary));
	int r;

	*backing = (struct backing){.fd = -1, .direct_fd = -1, .claim_fd = -1};
	if (!temporary) {
		backing_close(base);
		return -ENOMEM;
	}
	temporary->base = *base;
	r = temporary_make(backing, temporary, config, error);
	if (r == 0)
		return 0;
	if (backing->state)
		backing_close(backing);
	else
		temporary_free(temporary);
	return r;
}
