/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/snapshot/copy_image.h"

#include "engine/backing/file/file.h"
#include "engine/backing/kind.h"
#include "engine/image/freeze.h"
#include "engine/io/image_state.h"
#include "engine/io/observer.h"
#include "engine/snapshot/copiers.h"
#include "engine/snapshot/copy.h"

#include "common/cleanup.h"
#include "common/container_of.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The state of a copy's backing. */
struct copy_image {
	struct copy copy;
	struct copiers copiers;
	struct observer observer;
	struct image *observed; /* whose file's changes are observed; NULL: none yet */
	char identity[32];
};

/* ---- a copy as a backing */

static struct copy_image *
copy_image_of(const struct backing *backing)
{
	return backing->state;
}

static int
copy_image_read(const struct backing *backing, bool direct, void *buffer, size_t length,
		uint64_t offset)
{
	return copy_read(&copy_image_of(backing)->copy, direct, buffer, length, offset);
}

static void
copy_image_close(struct backing *backing)
{
	struct copy_image *self = copy_image_of(backing);
	struct freeze freeze;

	if (self && self->observed) {
		/* Waits for the changes that are under way, since these may be using the copy. They
		 * copy no more than what they have begun: all other changes wait for them
		 * meanwhile. */
		copy_abandon(&self->copy);
		freeze_begin(&freeze, &self->observed, 1);
		observer_remove(self->observed->ranges, &self->observer);
		freeze_end(&freeze);
	}
	if (self) {
		copiers_fini(&self->copiers);
		copy_fini(&self->copy);
		free(self);
	}
	backing->state = NULL;
	backing->identity = NULL;
	backing->fd = backing->direct_fd = -1;
	free(steal_pointer(&backing->path));
}

static int64_t
copy_image_size(const struct backing *backing)
{
	return (int64_t)copy_image_of(backing)->copy.end;
}

static bool
copy_image_same(const struct backing *a, const struct backing *b)
{
	return strcmp(a->identity, b->identity) == 0;
}

static ssize_t
copy_image_peek(const struct backing *backing, void *buffer, size_t length, uint64_t offset)
{
	const struct copy *copy = &copy_image_of(backing)->copy;

	if (offset >= copy->end)
		return 0;
	length = length < copy->end - offset ? length : (size_t)(copy->end - offset);
	return copy_image_read(backing, false, buffer, length, offset);
}

static int
copy_image_extents(const struct backing *backing, uint64_t offset, uint64_t length, bool one,
		   extent_visit visit, void *data)
{
	return copy_extents(&copy_image_of(backing)->copy, offset, length, one, visit, data);
}

static bool
copy_image_have_holes(const struct backing *backing)
{
	return backing_file.have_holes(&copy_image_of(backing)->copy.source);
}

static const struct backing_kind copy_image_kind = {
	.read = copy_image_read,
	.close = copy_image_close,
	.size = copy_image_size,
	.same = copy_image_same,
	.peek = copy_image_peek,
	.extents = copy_image_extents,
	.have_holes = copy_image_have_holes,
};

/* ---- making a copy */

static bool
copy_image_change(struct observer *observer, struct range *range)
{
	struct copy_image *self = container_of(observer, struct copy_image, observer);

	return copiers_keep(&self->copiers, range);
}

/* The file may grow again, and then has zeroes there. */
static void
copy_image_truncated(struct observer *observer, uint64_t end)
{
	struct copy_image *self = container_of(observer, struct copy_image, observer);

	copy_lose_end(&self->copy, end);
}

int
copy_image_open(const struct copy_image_wish *wish, const struct image_config *wanted, char *path,
		struct image **result, char **error)
{
	static _Atomic uint64_t last;
	const struct image *image = wish->image;
	struct copy_image *self = calloc(1, sizeof(*self));
	const struct copy_place place = {
		.name = wish->name,
		.source = &image->backing,
		.start = image->config.offset,
		.end = image->config.offset + image_size(image),
		.direct_end = atomic_load(&image->direct_end),
		.scratch = wish->scratch,
		.scratch_size = wish->scratch_size,
	};
	struct image_config config = *wanted;
	struct backing backing;
	int r = self ? copy_init(&self->copy, &place, error) : -ENOMEM;

	if (r < 0) {
		free(self);
		free(path);
		return r;
	}
	snprintf(self->identity, sizeof(self->identity), "snapshot %llu",
		 (unsigned long long)atomic_fetch_add(&last, 1));
	copiers_init(&self->copiers, &self->copy);
	self->observer.change = copy_image_change;
	self->observer.truncated = copy_image_truncated;
	backing = self->copy.source;
	backing.kind = &copy_image_kind;
	backing.path = path;
	backing.state = self;
	backing.identity = self->identity;
	backing.indirect = true;
	backing.writable = backing.page_cache = backing.in_memory = false;
	/* Requests are carried out by threads, which ask the kernel themselves. */
	config.engine = ENGINE_THREADS;
	config.page_cache = PAGE_CACHE_KEEP;
	return image_open_backing(&backing, &config, result, error);
}

void
copy_image_begin(struct image *copied, struct image *image)
{
	struct copy_image *self = copy_image_of(&copied->backing);

	self->observed = image;
	observer_add(image->ranges, &self->observer);
}

bool
copy_image_is(const struct image *image)
{
	return image->backing.kind == &copy_image_kind;
}

struct copy *
copy_image_copy(const struct image *copied)
{
	return &copy_image_of(&copied->backing)->copy;
}
