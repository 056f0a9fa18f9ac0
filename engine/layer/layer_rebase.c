/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/layer/layer_rebase.h"

#include "engine/layer/layer_create.h"
#include "engine/layer/layer_keeper.h"

#include "common/cleanup.h"
#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How many bytes are compared at once: granules of any size fit. */
#define CHUNK (UINT64_C(1) << 20)
/* So much is taken between two commits. */
#define COMMIT_EVERY (UINT64_C(256) << 20)

struct rebase {
	const struct layer_wish *wish;
	int fd;              /* the layer's */
	struct layers *old;  /* the chain until now; NULL: it can't be opened */
	const char *base;    /* the new base, or NULL */
	int base_fd;         /* or -1 */
	struct layers *into; /* the new base's chain, if it is a layer */
	struct layer_header next;
	uint64_t taken, uncommitted; /* bytes */
	bool failed;                 /* a commit has: there must be no other one */
};

/* ---- the new base */

/* Other circles are found by the lock that the layer has. */
static int
rebase_check_self(const struct rebase *rebase, char **error)
{
	struct stat own, other;

	if (fstat(rebase->fd, &own) == 0 && stat(rebase->base, &other) == 0 &&
	    own.st_dev == other.st_dev && own.st_ino == other.st_ino)
		return error_set(error, -ELOOP, "%s: a layer can't be its own base",
				 rebase->wish->path);
	return 0;
}

/* Opens the new base, with its chain, and fills in what the header will say of it. */
static int
rebase_open_base(struct rebase *rebase, char **error)
{
	const struct layer_wish wish = {
		.path = rebase->base,
		.base_path = rebase->wish->base_path,
		.lock = LOCK_AUTO,
	};
	char *CLEANUP_FREE path = NULL;
	int r = rebase_check_self(rebase, error);

	if (r < 0)
		return r;
	/* The base is looked for where the layer really is, and not where a link to it is. */
	path = realpath(rebase->wish->path, NULL);
	if (!path)
		return error_set(error, -errno, "%s: %s", rebase->wish->path, strerror(errno));
	rebase->base_fd = layer_take_base(&rebase->next, path, rebase->base, error);
	if (rebase->base_fd < 0)
		return rebase->base_fd;
	r = rebase->next.base == LAYER_BASE_LAYER
		    ? layers_open(rebase->base_fd, &wish, &rebase->into, error)
		    : 0;
	/* The lowest owner may be no file. */
	if (r == 0 && rebase->into &&
	    rebase->into->top + (rebase->into->files[0].path != NULL) > LAYER_DEPTH_MAX)
		r = error_set(error, -ELOOP, "%s: it would stand on more than %d files",
			      rebase->wish->path, LAYER_DEPTH_MAX);
	return r;
}

/* What the header says of a layer without a base. */
static void
rebase_leave_base(struct layer_header *header)
{
	header->base = LAYER_BASE_NONE;
	header->base_size = header->visible = 0;
	header->base_modified = 0;
	header->base_id = (struct layer_id){{0}};
	memset(header->path, 0, sizeof(header->path));
}

static void
rebase_copy_base(struct layer_header *to, const struct layer_header *from)
{
	to->base = from->base;
	to->base_size = from->base_size;
	to->visible = from->visible;
	to->base_modified = from->base_modified;
	to->base_id = from->base_id;
	memcpy(to->path, from->path, sizeof(to->path));
}

/* ---- where bytes lie */

/* Bytes of the disk that lie in one file. */
struct rebase_run {
	int fd; /* -1: they are zeroes */
	uint64_t offset, until;
};

static struct rebase_run
rebase_run_of(const struct layers *layers, uint64_t place, uint64_t end)
{
	struct rebase_run run;
	uint8_t below;

	run.until = layers_run(layers, place, end, &below, &run.offset);
	run.fd = below == 0              ? layers->files[layers->top].fd
		 : below == LAYER_ZEROES ? -1
					 : layers_fd(layers, below);
	return run;
}

static struct rebase_run
rebase_run_of_base(const struct rebase *rebase, uint64_t place, uint64_t end)
{
	const uint64_t visible = rebase->next.visible;

	if (place >= visible)
		return (struct rebase_run){-1, 0, end};
	end = end < visible ? end : visible;
	return rebase->into ? rebase_run_of(rebase->into, place, end)
			    : (struct rebase_run){rebase->base_fd, place, end};
}

/* Returns up to where a run has zeroes, as far as that is known without reading. */
static uint64_t
rebase_zeroes(const struct rebase_run *run, uint64_t place)
{
	off_t data;

	if (run->fd < 0)
		return run->until;
	data = lseek(run->fd, (off_t)run->offset, SEEK_DATA);
	if (data < 0)
		return errno == ENXIO ? run->until : place;
	return (uint64_t)data - run->offset < run->until - place
		       ? place + ((uint64_t)data - run->offset)
		       : run->until;
}

static bool
rebase_same_file(const struct rebase_run *a, const struct rebase_run *b)
{
	struct stat one, other;

	if (a->fd < 0 || b->fd < 0 || a->offset != b->offset)
		return a->fd < 0 && b->fd < 0;
	return fstat(a->fd, &one) == 0 && fstat(b->fd, &other) == 0 && one.st_dev == other.st_dev &&
	       one.st_ino == other.st_ino;
}

/* Returns up to where the disk is the same on both bases for sure, without a look at the bytes. */
static uint64_t
rebase_skip(const struct rebase *rebase, uint64_t place, uint64_t end)
{
	struct rebase_run old = rebase_run_of(rebase->old, place, end);
	struct rebase_run new = rebase_run_of_base(rebase, place, old.until);
	uint64_t one, other;

	old.until = new.until;
	if (rebase_same_file(&old, &new))
		return new.until;
	one = rebase_zeroes(&old, place);
	other = rebase_zeroes(&new, place);
	return one < other ? one : other;
}

/* ---- taking granules */

/* Reads bytes of the disk as the new base has them. */
static int
rebase_read_base(const struct rebase *rebase, char *buffer, size_t length, uint64_t place)
{
	const uint64_t visible = rebase->next.visible;
	size_t there = place >= visible           ? 0
		       : visible - place < length ? (size_t)(visible - place)
						  : length;
	ssize_t n = (ssize_t)there;

	memset(buffer + there, 0, length - there);
	if (there > 0 && rebase->into)
		return layers_read(rebase->into, buffer, there, place);
	if (there > 0)
		n = layer_read_all(rebase->base_fd, buffer, there, place);
	return n < 0 ? (int)n : n == (ssize_t)there ? 0 : -EIO;
}

static bool
rebase_is_zero(const char *bytes, size_t length)
{
	return bytes[0] == 0 && memcmp(bytes, bytes + 1, length - 1) == 0;
}

/* Writes granules into the layer; `length` is that of all of them. */
static int
rebase_put(const struct rebase *rebase, const char *bytes, size_t length, uint64_t place)
{
	const off_t at = (off_t)(rebase->old->header.data_at + place);
	size_t done = 0;

	/* Something may be left there from a change that was never marked. */
	if (rebase_is_zero(bytes, length) &&
	    fallocate(rebase->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, (off_t)length) ==
		    0)
		return 0;
	while (done < length) {
		ssize_t n = pwrite(rebase->fd, bytes + done, length - done, at + (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ENOSPC;
		done += (size_t)n;
	}
	return 0;
}

static int
rebase_commit(struct rebase *rebase)
{
	int r = layer_keeper_commit(rebase->old, rebase->fd, layer_keeper_ticket(rebase->old),
				    layer_sync, &rebase->fd);

	rebase->uncommitted = 0;
	rebase->failed = r < 0;
	return r;
}

/* Takes granules that follow each other. */
static int
rebase_take(struct rebase *rebase, const char *bytes, size_t length, uint64_t place)
{
	const uint64_t granule = rebase->old->map.granule, end = place + length;
	const struct layer_span span = {
		.first = place / granule,
		.end = end / granule + (end % granule != 0),
	};
	int r = rebase_put(rebase, bytes, length, place);

	if (r == 0)
		r = layer_keeper_mark(rebase->old, rebase->fd, &span, 1);
	rebase->taken += length;
	rebase->uncommitted += length;
	if (r == 0 && rebase->uncommitted >= COMMIT_EVERY)
		r = rebase_commit(rebase);
	return r;
}

static int
rebase_refuse(const struct rebase *rebase, uint64_t place, char **error)
{
	return error_set(error, -EROFS,
			 "%s: it would have other bytes at %llu without its base, and a sealed "
			 "layer takes none: make a clone of it, and do this with the clone",
			 rebase->wish->path, (unsigned long long)place);
}

/* Returns how many bytes from `at` on, in whole granules, differ in both, or are the same in both.
 */
static size_t
rebase_alike(const struct rebase *rebase, const char *buffers, size_t at, size_t length,
	     bool *differ)
{
	const size_t granule = (size_t)rebase->old->map.granule, begin = at;

	while (at < length) {
		const size_t size = length - at < granule ? length - at : granule;
		const bool differs = memcmp(buffers + at, buffers + CHUNK + at, size) != 0;

		if (at > begin && differs != *differ)
			break;
		*differ = differs;
		at += size;
	}
	return at - begin;
}

/* Compares bytes that begin with a granule, and which the layer lacks. */
static int
rebase_compare(struct rebase *rebase, char *buffers, size_t length, uint64_t place, char **error)
{
	const char *path = rebase->wish->path;
	int r = layers_read(rebase->old, buffers, length, place);

	if (r < 0)
		return error_set(error, r, "%s: its base: reading %zu bytes at %llu: %s", path,
				 length, (unsigned long long)place, strerror(-r));
	r = rebase_read_base(rebase, buffers + CHUNK, length, place);
	if (r < 0)
		return error_set(error, r, "%s: reading %zu bytes at %llu: %s", rebase->base,
				 length, (unsigned long long)place, strerror(-r));
	for (size_t at = 0; at < length && r == 0;) {
		bool differ = false;
		const size_t alike = rebase_alike(rebase, buffers, at, length, &differ);

		if (differ && rebase->old->header.state == LAYER_SEALED)
			return rebase_refuse(rebase, place + at, error);
		if (differ)
			r = rebase_take(rebase, buffers + at, alike, place + at);
		at += alike;
	}
	return r < 0 ? error_set(error, r, "%s: taking bytes of its base: %s", path, strerror(-r))
		     : 0;
}

static int
rebase_take_all(struct rebase *rebase, const struct layer_watch *watch, char **error)
{
	char *CLEANUP_FREE buffers = malloc(2 * CHUNK);
	const uint64_t size = rebase->old->header.size, granule = rebase->old->map.granule;
	int r = buffers ? 0 : -ENOMEM;

	for (uint64_t place = 0; place < size && r == 0;) {
		uint8_t owner;
		uint64_t until = layer_map_run(&rebase->old->map, place, size, &owner);

		if (owner != rebase->old->top) {
			uint64_t same = rebase_skip(rebase, place, until);

			/* Files may end, and holes begin, within a granule. */
			same = same == until ? until : same / granule * granule;
			if (same <= place) {
				until = until < place + CHUNK ? until : place + CHUNK;
				r = rebase_compare(rebase, buffers, (size_t)(until - place), place,
						   error);
			} else {
				until = same;
			}
		}
		place = until;
		if (r == 0)
			r = watch->step(watch->data, place, size);
	}
	return r;
}

/* ---- the whole */

/* Whether the header says the same of both bases, so that they have the same bytes. */
static bool
rebase_same_witness(const struct layer_header *a, const struct layer_header *b)
{
	return a->base == b->base && a->base_size == b->base_size &&
	       a->base_modified == b->base_modified &&
	       memcmp(&a->base_id, &b->base_id, sizeof(a->base_id)) == 0;
}

/* Has the layer take what differs, and makes its maps complete. */
static int
rebase_with_old(struct rebase *rebase, const struct layer_watch *watch, char **error)
{
	const bool sealed = rebase->old->header.state == LAYER_SEALED;
	int r = sealed ? 0 : layer_keeper_begin(rebase->old, rebase->fd, true);

	if (r < 0)
		return r;
	r = rebase_take_all(rebase, watch, error);
	if (r == 0 && !sealed)
		r = rebase_commit(rebase);
	if (r < 0) {
		/* What it has taken is as good as what a server has written. */
		if (!sealed && !rebase->failed && rebase_commit(rebase) == 0)
			layer_keeper_end(rebase->old, rebase->fd);
		return r;
	}
	if (!sealed)
		memset(rebase->old->header.boot, 0, sizeof(rebase->old->header.boot));
	rebase_copy_base(&rebase->old->header, &rebase->next);
	rebase->next = rebase->old->header;
	return 0;
}

/* Opens the chain until now. If that can't be done, the new base must be what the old one was. */
static int
rebase_open_old(struct rebase *rebase, const struct layer_header *header, char **error)
{
	char *CLEANUP_FREE why = NULL;
	int r = layers_open(rebase->fd, rebase->wish, &rebase->old, &why);

	if (r == 0)
		return 0;
	if (rebase->base && rebase_same_witness(header, &rebase->next))
		return 0;
	if (rebase->base && header->base == LAYER_BASE_RAW)
		return error_set(error, r,
				 "%s; and %s has another size or another time of its last change, "
				 "so that it is not known to be the same; --force, if you know",
				 why ? why : strerror(-r), rebase->base);
	*error = steal_pointer(&why);
	return r;
}

/* A file system that is never written to may have no sync. */
static int
rebase_sync_file(int fd)
{
	return fsync(fd) == 0 || errno == EINVAL || errno == EROFS ? 0 : -errno;
}

/* What the new base has is on the disk before the header names it. */
static int
rebase_sync_base(const struct rebase *rebase, char **error)
{
	int r = rebase->base_fd >= 0 ? rebase_sync_file(rebase->base_fd) : 0;

	for (unsigned int owner = 0; r == 0 && rebase->into && owner < rebase->into->top; owner++) {
		if (rebase->into->files[owner].path)
			r = rebase_sync_file(rebase->into->files[owner].fd);
	}
	return r < 0 ? error_set(error, r, "%s: syncing it: %s", rebase->base, strerror(-r)) : 0;
}

static int
rebase_run_all(struct rebase *rebase, const struct layer_watch *watch, char **error)
{
	struct layer_header header;
	int r = layer_header_read(rebase->fd, rebase->wish->path, &header, error);

	if (r < 0)
		return r;
	if (header.state == LAYER_COMMITTING)
		return error_set(error, -EBUSY,
				 "%s: a commit into its base was interrupted; `nbdloop layer "
				 "commit %s` carries it on",
				 rebase->wish->path, rebase->wish->path);
	rebase->next = header;
	if (rebase->base)
		r = rebase_open_base(rebase, error);
	else
		rebase_leave_base(&rebase->next);
	/* An empty disk stays one. */
	rebase->next.size = header.size;
	if (rebase->next.visible > header.size)
		rebase->next.visible = header.size;
	if (r == 0 && !rebase->wish->force)
		r = rebase_open_old(rebase, &header, error);
	/* The disk may have other bytes now, and no record of checkpoints may go on. */
	if (r == 0 && rebase->wish->force)
		r = layer_draw_opening(&rebase->next.opening);
	if (r == 0 && rebase->old)
		r = rebase_with_old(rebase, watch, error);
	if (r == 0)
		r = rebase_sync_base(rebase, error);
	if (r == 0)
		r = layer_header_write(&rebase->next, rebase->fd);
	if (r < 0 && !*error)
		return error_set(error, r, "%s: %s", rebase->wish->path, strerror(-r));
	return r;
}

int
layer_rebase(const struct layer_wish *wish, const char *base, const struct layer_watch *watch,
	     uint64_t *taken, char **error)
{
	int CLEANUP_CLOSE fd = layer_open_alone(wish->path, error);
	struct rebase rebase = {.wish = wish, .fd = fd, .base = base, .base_fd = -1};
	int r;

	*taken = 0;
	if (fd < 0)
		return fd;
	r = rebase_run_all(&rebase, watch, error);
	*taken = rebase.taken;
	layers_close(rebase.old);
	layers_close(rebase.into);
	if (rebase.base_fd >= 0)
		close(rebase.base_fd);
	return r;
}
