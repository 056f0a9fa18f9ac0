/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/snapshot/snapshot.h"

#include "engine/backing/file.h"
#include "engine/backing/kind.h"
#include "engine/context/ioctx.h"
#include "engine/image/freeze.h"
#include "engine/io/image_state.h"
#include "engine/io/io.h"
#include "engine/io/observer.h"
#include "engine/snapshot/copy.h"

#include "common/cleanup.h"
#include "common/container_of.h"
#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* The state of a copy's backing. */
struct snapshot {
	struct copy copy;
	struct observer observer;
	struct image *observed; /* whose file's changes are observed; NULL: none yet */
	char identity[32];
};

/* A change that waits until its range is copied. */
struct kept_change {
	struct helper_job job;
	struct snapshot *snapshot;
	struct range *range;
};

/* ---- a copy as a backing */

static struct snapshot *
snapshot_of(const struct backing *backing)
{
	return backing->state;
}

static int
snapshot_read(const struct backing *backing, bool direct, void *buffer, size_t length,
	      uint64_t offset)
{
	return copy_read(&snapshot_of(backing)->copy, direct, buffer, length, offset);
}

/* Waits for the changes that are under way, since these may be using the copy. They copy no more
 * than what they have begun: all other changes wait for them meanwhile. */
static void
stop_observing(struct snapshot *snapshot)
{
	struct freeze freeze;

	if (!snapshot->observed)
		return;
	copy_abandon(&snapshot->copy);
	freeze_begin(&freeze, &snapshot->observed, 1);
	image_unobserve(snapshot->observed, &snapshot->observer);
	freeze_end(&freeze);
}

static void
snapshot_close(struct backing *backing)
{
	struct snapshot *snapshot = snapshot_of(backing);

	if (snapshot) {
		stop_observing(snapshot);
		copy_fini(&snapshot->copy);
		free(snapshot);
	}
	backing->state = NULL;
	backing->identity = NULL;
	backing->fd = backing->direct_fd = -1;
	free(steal_pointer(&backing->path));
}

static int64_t
snapshot_size(const struct backing *backing)
{
	return (int64_t)snapshot_of(backing)->copy.end;
}

static bool
snapshot_same(const struct backing *a, const struct backing *b)
{
	return strcmp(a->identity, b->identity) == 0;
}

static ssize_t
snapshot_peek(const struct backing *backing, void *buffer, size_t length, uint64_t offset)
{
	const struct copy *copy = &snapshot_of(backing)->copy;

	if (offset >= copy->end)
		return 0;
	length = length < copy->end - offset ? length : (size_t)(copy->end - offset);
	return snapshot_read(backing, false, buffer, length, offset);
}

static int
snapshot_extents(const struct backing *backing, uint64_t offset, uint64_t length, bool one,
		 extent_visit visit, void *data)
{
	return copy_extents(&snapshot_of(backing)->copy, offset, length, one, visit, data);
}

static bool
snapshot_have_holes(const struct backing *backing)
{
	return backing_file.have_holes(&snapshot_of(backing)->copy.source.backing);
}

/* Nobody else can have it open. */
static int
snapshot_lock(struct backing *backing, const struct image_config *config,
	      const struct lock_part *part, bool writable, bool locked, char **error)
{
	(void)backing, (void)config, (void)part, (void)writable, (void)locked, (void)error;
	return 0;
}

static int
snapshot_lock_check(const struct backing *backing, const struct image_config *config,
		    const struct lock_part *part, bool writable, char **error)
{
	(void)backing, (void)config, (void)part, (void)writable, (void)error;
	return 0;
}

static void
snapshot_unlock(struct backing *backing)
{
	(void)backing;
}

static const struct backing_kind backing_snapshot = {
	.read = snapshot_read,
	.close = snapshot_close,
	.size = snapshot_size,
	.same = snapshot_same,
	.peek = snapshot_peek,
	.extents = snapshot_extents,
	.have_holes = snapshot_have_holes,
	.lock = snapshot_lock,
	.lock_check = snapshot_lock_check,
	.unlock = snapshot_unlock,
};

/* ---- making a copy */

/* Copies what the change of this range will overwrite. */
static void
keep(struct snapshot *snapshot, struct range *range)
{
	const struct image *image = io_of_range(range)->ctx->image;

	copy_keep(&snapshot->copy, image_direct(image), range->start, range->end);
}

/* On a helper's thread. */
static void
keep_work(struct helper_job *job)
{
	struct kept_change *kept = container_of(job, struct kept_change, job);

	keep(kept->snapshot, kept->range);
}

static void
keep_done(struct helper_job *job)
{
	struct kept_change *kept = container_of(job, struct kept_change, job);

	observer_release(kept->range);
	free(kept);
}

static bool
before_change(struct observer *observer, struct range *range)
{
	struct snapshot *snapshot = container_of(observer, struct snapshot, observer);
	struct ioctx *ctx = io_of_range(range)->ctx;
	struct kept_change *kept;

	if (copy_has(&snapshot->copy, range->start, range->end))
		return true;
	if (!ctx->hosted) {
		keep(snapshot, range);
		return true;
	}
	kept = malloc(sizeof(*kept));
	if (!kept) {
		copy_break(&snapshot->copy, "out of memory");
		return true;
	}
	*kept = (struct kept_change){{.work = keep_work, .done = keep_done}, snapshot, range};
	ioctx_help(ctx, &kept->job);
	return false;
}

/* The path of the image with the snapshot's name, for messages. */
static char *
path_of(const struct image *image, const struct snapshot_wish *wish)
{
	char *path;

	return asprintf(&path, "%s@%s", image->backing.path, wish->name) < 0 ? NULL : path;
}

/* The same window of the file, and the same sectors. */
static struct image_config
config_of(const struct image *image)
{
	struct image_config config = image->config;

	config.sizelimit = image_size(image);
	config.sector_size = image->sector_size;
	config.direct_io = image_direct(image) ? TRISTATE_AUTO : TRISTATE_OFF;
	config.poll = TRISTATE_OFF;
	config.discard = TRISTATE_OFF;
	config.lock = LOCK_OFF;
	config.force = TRISTATE_OFF;
	return config;
}

static int
make_snapshot(struct image *image, const struct snapshot_wish *wish, const char *scratch,
	      struct snapshot **result, char **error)
{
	static _Atomic uint64_t last;
	struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
	const struct copy_place place = {
		.name = wish->name,
		.source = &image->backing,
		.start = image->config.offset,
		.end = image->config.offset + image_size(image),
		.direct_end = atomic_load(&image->direct_end),
		.scratch = scratch,
		.scratch_size = wish->scratch_size,
	};
	int r = snapshot ? copy_init(&snapshot->copy, &place, error) : -ENOMEM;

	if (r < 0) {
		free(snapshot);
		return r;
	}
	snprintf(snapshot->identity, sizeof(snapshot->identity), "snapshot %llu",
		 (unsigned long long)atomic_fetch_add(&last, 1));
	snapshot->observer.change = before_change;
	*result = snapshot;
	return 0;
}

/* Takes the snapshot over. Requests are carried out by threads, which ask the kernel themselves. */
static int
open_copy(struct image *image, const struct snapshot_wish *wish, struct snapshot *snapshot,
	  struct image **result, char **error)
{
	struct image_config config = config_of(image);
	struct backing backing = snapshot->copy.source.backing;

	config.engine = ENGINE_THREADS;
	config.page_cache = PAGE_CACHE_KEEP;
	backing.kind = &backing_snapshot;
	backing.path = path_of(image, wish);
	backing.state = snapshot;
	backing.identity = snapshot->identity;
	backing.writable = backing.page_cache = backing.in_memory = false;
	if (backing.path)
		return image_open_backing(&backing, &config, result, error);
	snapshot_close(&backing);
	return -ENOMEM;
}

static int
prepare_copy(struct image *image, const struct snapshot_wish *wish, const char *scratch,
	     struct image **result, char **error)
{
	struct snapshot *snapshot;
	int r = make_snapshot(image, wish, scratch, &snapshot, error);

	return r < 0 ? r : open_copy(image, wish, snapshot, result, error);
}

/* ---- making a clone */

/* Makes a file to clone the image's file into, if the file system can clone. Returns a descriptor,
 * or -errno. */
static int
prepare_clone(const struct image *image, const char *directory)
{
	const struct file_clone_range first = {
		.src_fd = image->backing.fd,
		.src_length = image->backing.cache_block,
	};
	char *CLEANUP_FREE error = NULL;
	int CLEANUP_CLOSE fd = -1;

	if (image->backing.block_device)
		return -EOPNOTSUPP;
	fd = scratch_open(directory, &error);
	if (fd < 0)
		return fd;
	if (ioctl(fd, FICLONERANGE, &first) < 0)
		return -errno;
	/* Cloning writes dirty pages back; most of them now, while changes need not wait. */
	if (ftruncate(fd, 0) < 0 || fdatasync(image->backing.fd) < 0)
		return -errno;
	return steal_fd(&fd);
}

static int
open_clone(const struct image *image, const struct snapshot_wish *wish, int fd,
	   struct image **result, char **error)
{
	const struct image_config config = config_of(image);
	char path[64], *name = path_of(image, wish);
	int r;

	if (!name)
		return -ENOMEM;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	r = image_open(AT_FDCWD, path, BACKING_READ_ONLY, &config, result, error);
	if (r < 0) {
		free(name);
		return r;
	}
	free((*result)->backing.path);
	(*result)->backing.path = name;
	return 0;
}

/* ---- the moment */

/* The moment of the snapshot: clones the file into `clone`, or begins the copy. Returns whether
 * there is a clone. */
static bool
pass_moment(struct image *image, int clone, struct image *copy)
{
	struct freeze freeze;
	bool cloned;

	freeze_begin(&freeze, &image, 1);
	cloned = clone >= 0 && ioctl(clone, FICLONE, image->backing.fd) == 0;
	if (!cloned) {
		struct snapshot *snapshot = snapshot_of(&copy->backing);

		snapshot->observed = image;
		image_observe(image, &snapshot->observer);
	}
	freeze_end(&freeze);
	return cloned;
}

/* The directory of an open file: its path may lead through links, such as /proc/self/fd. NULL: it
 * is not known. The caller frees it. */
static char *
directory_of(int fd)
{
	char link[64], path[PATH_MAX], *slash;
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	if (length <= 0)
		return NULL;
	path[length] = '\0';
	slash = strrchr(path, '/');
	if (!slash)
		return NULL;
	slash[slash == path] = '\0';
	return strdup(path);
}

/* The directory of the scratch file: if the user has not named one, the image's own. That of a
 * device's node has no room. The caller frees it. */
static char *
choose_directory(const struct image *image, const struct snapshot_wish *wish)
{
	char *directory;

	if (wish->scratch)
		return strdup(wish->scratch);
	directory = image->backing.block_device ? NULL : directory_of(image->backing.fd);
	return directory ? directory : strdup("/var/tmp");
}

static int
check_possible(const struct image *image, const struct snapshot_wish *wish, char **error)
{
	const char *path = image->backing.path;

	if (image->backing.kind == &backing_snapshot)
		return error_set(error, -EINVAL, "%s is a snapshot already", path);
	if (image->backing.kind->start)
		return error_set(error, -EOPNOTSUPP,
				 "%s: an image in Ceph has snapshots of its own: rbd snap create "
				 "%s@%s; then add the export NAME=%s@%s",
				 path, strchr(path, ':') + 1, wish->name, path, wish->name);
	if (image_size(image) == 0)
		return error_set(error, -EINVAL, "%s has no bytes to copy", path);
	return 0;
}

/* A copy may be broken already: the disk gave errors when it was looked at. */
static int
check_whole(struct image **copy, char **error)
{
	char reason[REASON_MAX];
	int r;

	if (!copy_is_broken(&snapshot_of(&(*copy)->backing)->copy, reason))
		return 0;
	r = error_set(error, -EIO, "%s: %s", (*copy)->backing.path, reason);
	image_close(steal_pointer(copy));
	return r;
}

int
snapshot_take(struct image *image, const struct snapshot_wish *wish, struct image **result,
	      char **error)
{
	char *CLEANUP_FREE directory = choose_directory(image, wish);
	int CLEANUP_CLOSE clone = -1;
	struct image *copy = NULL;
	int r;

	*error = NULL;
	if (!directory)
		return -ENOMEM;
	r = check_possible(image, wish, error);
	if (r == 0)
		r = prepare_copy(image, wish, directory, &copy, error);
	if (r < 0)
		return r;
	clone = prepare_clone(image, directory);
	if (!pass_moment(image, clone, copy)) {
		*result = copy;
		return check_whole(result, error);
	}
	image_close(copy);
	return open_clone(image, wish, clone, result, error);
}

void
snapshot_facts(const struct image *image, struct snapshot_facts *facts)
{
	struct snapshot *snapshot = snapshot_of(&image->backing);

	*facts = (struct snapshot_facts){.clone = image->backing.kind != &backing_snapshot};
	if (facts->clone)
		return;
	facts->granule = snapshot->copy.granule;
	facts->written = atomic_load(&snapshot->copy.scratch.written);
	facts->most = snapshot->copy.scratch.most;
	copy_is_broken(&snapshot->copy, facts->broken);
}
