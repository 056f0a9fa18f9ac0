/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/layer/layer_commit.h"

#include "engine/backing/file/lock.h"
#include "engine/layer/layer_create.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/image_use.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* How many bytes are copied at once. */
#define CHUNK (UINT64_C(1) << 20)

struct commit {
	const struct layer_wish *wish;
	struct layers *layers;
	int fd;         /* the layer's */
	int base;       /* for writing; -1: not open yet */
	uint64_t given; /* bytes */
};

/* ---- what forbids it */

static bool
commit_is_same(const struct stat *a, const struct stat *b)
{
	return S_ISBLK(a->st_mode) ? S_ISBLK(b->st_mode) && a->st_rdev == b->st_rdev
				   : a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Returns whether the file of that name in a directory is another layer on the base. */
static bool
commit_is_other(const struct commit *commit, int dir, const char *name, const struct stat *base)
{
	int CLEANUP_CLOSE fd = -1;
	char *CLEANUP_FREE ignored = NULL;
	struct layer_header header;
	struct stat own, other, its;

	/* Opening a device may do anything. */
	if (!layer_is_named(name) || fstatat(dir, name, &other, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(other.st_mode))
		return false;
	fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return fd >= 0 && fstat(fd, &other) == 0 && S_ISREG(other.st_mode) &&
	       fstat(commit->fd, &own) == 0 && !commit_is_same(&own, &other) &&
	       layer_header_read(fd, name, &header, &ignored) == 0 &&
	       header.base == LAYER_BASE_RAW && fstatat(dir, header.path, &its, 0) == 0 &&
	       commit_is_same(base, &its);
}

/* Looks for other layers on the base in the directory of a file that is open. */
static int
commit_check_others(const struct commit *commit, int file, char **error)
{
	const char *base = commit->layers->header.path;
	char link[64], path[PATH_MAX], *slash;
	int CLEANUP_CLOSE at = -1;
	struct dirent *entry;
	struct stat st;
	ssize_t n;
	DIR *dir;
	int r = 0;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
	n = readlink(link, path, sizeof(path) - 1);
	if (n < 0 || fstat(commit->layers->files[0].fd, &st) < 0)
		return error_set(error, -errno, "%s: %s", base, strerror(errno));
	path[n] = '\0';
	/* The kernel gives a whole path. */
	slash = strrchr(path, '/');
	if (slash)
		slash[1] = '\0';
	at = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	dir = at < 0 ? NULL : opendir(path);
	if (!dir)
		return error_set(error, -errno,
				 "%s: looking for other layers on %s: %s; --force, if you know "
				 "that there are none",
				 path, base, strerror(errno));
	while (r == 0 && (entry = readdir(dir)) != NULL) {
		if (commit_is_other(commit, at, entry->d_name, &st))
			r = error_set(
				error, -EBUSY,
				"%s: %s%s stands on its base %s, too, and a commit would make "
				"that useless: flatten it, or remove it, first; --force "
				"commits all the same",
				commit->wish->path, path, entry->d_name, base);
	}
	closedir(dir);
	return r;
}

static int
commit_check_kernel(const struct commit *commit, char **error)
{
	struct image_part part = {.end = UINT64_MAX};
	struct image_use use;
	struct stat st;

	if (fstat(commit->layers->files[0].fd, &st) < 0)
		return -errno;
	part.device = S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev;
	part.inode = S_ISBLK(st.st_mode) ? 0 : st.st_ino;
	if (image_use_find("", &part, &use) && (use.writes || use.held))
		return error_set(error, -EBUSY, "%s: %s; end that first",
				 commit->layers->header.path, use.text);
	return 0;
}

static int
commit_check_layer(const struct commit *commit, char **error)
{
	const struct layer_header *header = &commit->layers->header;
	const char *path = commit->wish->path;

	if (header->state == LAYER_SEALED)
		return error_set(error, -EROFS,
				 "%s: it is sealed: other layers may stand on it; make a clone of "
				 "it and `nbdloop layer rebase` that to the base of this one",
				 path);
	if (header->base == LAYER_BASE_NONE)
		return error_set(error, -ENOENT, "%s: it has no base to commit into", path);
	if (header->base == LAYER_BASE_LAYER)
		return error_set(error, -EROFS,
				 "%s: its base %s is a sealed layer, which never changes; `nbdloop "
				 "layer rebase` to the base of that one takes its bytes into this "
				 "layer",
				 path, header->path);
	if (header->size < header->base_size)
		return error_set(error, -EFBIG,
				 "%s: its disk is smaller than its base %s, which would keep its "
				 "size and the bytes at its end",
				 path, header->path);
	return 0;
}

/* ---- the base */

static int
commit_open_base(struct commit *commit, char **error)
{
	const struct layer_file *file = &commit->layers->files[0];
	const char *name = commit->layers->header.path;
	char link[64];
	int r = lock_take_alone(file->fd, name, true, error);

	if (r == 0)
		r = commit_check_kernel(commit, error);
	if (r == 0 && !commit->wish->force)
		r = commit_check_others(commit, file->fd, error);
	if (r == 0 && !commit->wish->force)
		r = commit_check_others(commit, commit->fd, error);
	if (r < 0)
		return r;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", file->fd);
	commit->base = open(link, O_RDWR | O_CLOEXEC);
	return commit->base < 0 ? error_set(error, -errno, "%s: %s", name, strerror(errno)) : 0;
}

/* Makes the base as large as the disk. */
static int
commit_grow(const struct commit *commit, char **error)
{
	const struct layer_header *header = &commit->layers->header;
	struct stat st;
	int64_t size;

	if (fstat(commit->base, &st) < 0)
		return -errno;
	size = layer_base_size(commit->base, &st);
	if (size >= 0 && (uint64_t)size >= header->size)
		return 0;
	if (size < 0 || S_ISBLK(st.st_mode))
		return error_set(error, size < 0 ? (int)size : -ENOSPC,
				 "%s: it is smaller than the disk of %s", header->path,
				 commit->wish->path);
	return ftruncate(commit->base, (off_t)header->size) < 0
		       ? error_set(error, -errno, "%s: %s", header->path, strerror(errno))
		       : 0;
}

static int
commit_write(int fd, const char *bytes, size_t length, uint64_t offset)
{
	size_t done = 0;

	while (done < length) {
		ssize_t n = pwrite(fd, bytes + done, length - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ENOSPC;
		done += (size_t)n;
	}
	return 0;
}

/* ---- copying */

/* Returns whether the bytes at `place` are in a hole of the layer's file. Sets *until to the end of
 * the hole, or of what is none. */
static bool
commit_is_hole(const struct commit *commit, uint64_t place, uint64_t *until)
{
	const uint64_t start = commit->layers->header.data_at;
	const off_t from = (off_t)(start + place);
	const off_t data = lseek(commit->fd, from, SEEK_DATA);
	const bool hole = data < 0 ? errno == ENXIO : data > from;
	const off_t end = hole ? data : lseek(commit->fd, from, SEEK_HOLE);

	if (end > from && (uint64_t)end - start < *until)
		*until = (uint64_t)end - start;
	return hole;
}

static int
commit_copy(struct commit *commit, char *buffer, size_t length, uint64_t place)
{
	ssize_t n =
		layer_read_all(commit->fd, buffer, length, commit->layers->header.data_at + place);

	if (n != (ssize_t)length)
		return n < 0 ? (int)n : -EIO;
	return commit_write(commit->base, buffer, length, place);
}

/* Gives the base bytes that the layer holds, from `place` up to *until, or fewer. Sets *until to
 * where they end. */
static int
commit_give(struct commit *commit, char *buffer, uint64_t place, uint64_t *until)
{
	const bool hole = commit_is_hole(commit, place, until);

	if (hole && fallocate(commit->base, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			      (off_t)place, (off_t)(*until - place)) == 0) {
		commit->given += *until - place;
		return 0;
	}
	*until = *until < place + CHUNK ? *until : place + CHUNK;
	commit->given += *until - place;
	return commit_copy(commit, buffer, (size_t)(*until - place), place);
}

static int
commit_give_all(struct commit *commit, const struct layer_watch *watch, char **error)
{
	const struct layers *layers = commit->layers;
	char *CLEANUP_FREE buffer = malloc(CHUNK);
	int r = buffer ? commit_grow(commit, error) : -ENOMEM;

	for (uint64_t place = 0; place < layers->header.size && r == 0;) {
		uint8_t owner;
		uint64_t until = layer_map_run(&layers->map, place, layers->header.size, &owner);

		if (owner == layers->top)
			r = commit_give(commit, buffer, place, &until);
		if (r < 0)
			return error_set(error, r, "%s: writing %llu bytes at %llu: %s",
					 layers->header.path, (unsigned long long)(until - place),
					 (unsigned long long)place, strerror(-r));
		place = until;
		r = watch->step(watch->data, place, layers->header.size);
	}
	return r;
}

/* ---- the end */

/* Puts the base on the disk, and sets the layer's witness of it. */
static int
commit_settle_base(const struct commit *commit)
{
	struct layer_header *header = &commit->layers->header;
	struct stat st;
	int64_t size;

	if (fsync(commit->base) < 0 || fstat(commit->base, &st) < 0)
		return -errno;
	size = layer_base_size(commit->base, &st);
	if (size < 0)
		return (int)size;
	header->base_size = (uint64_t)size;
	header->base_modified = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
	return 0;
}

/* Releases the space of bytes of the layer's file, which are zeroes then. Returns 0 or -errno. */
static int
commit_punch(const struct commit *commit, uint64_t offset, uint64_t end)
{
	return fallocate(commit->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
			 (off_t)(end - offset)) < 0
		       ? -errno
		       : 0;
}

/* Makes all maps zeroes. */
static int
commit_clear_maps(const struct commit *commit)
{
	static const char zeroes[64 << 10];
	const uint64_t end = commit->layers->header.data_at;
	uint64_t offset = LAYER_STABLE_AT;
	int r = commit_punch(commit, offset, end);

	if (r != -EOPNOTSUPP && r != -ENOSYS)
		return r;
	for (r = 0; offset < end && r == 0; offset += sizeof(zeroes))
		r = commit_write(commit->fd, zeroes,
				 end - offset < sizeof(zeroes) ? (size_t)(end - offset)
							       : sizeof(zeroes),
				 offset);
	return r;
}

/* The base has all bytes. No granule may lose its bytes before the map has lost its mark. */
static int
commit_empty(const struct commit *commit)
{
	struct layer_header *header = &commit->layers->header;
	int fd = commit->fd;
	int r = commit_clear_maps(commit);

	if (r == 0)
		r = layer_sync(&fd);
	/* Without marks, what is left there is only space. */
	if (r == 0)
		commit_punch(commit, header->data_at, header->data_at + header->size);
	header->state = LAYER_WRITABLE;
	header->visible = header->size < header->base_size ? header->size : header->base_size;
	return r == 0 ? layer_header_write(header, fd) : r;
}

/* After a failure that leaves both files as they are, servers may have the layer again. */
static void
commit_give_up(struct commit *commit)
{
	struct layer_header *header = &commit->layers->header;

	if (commit_settle_base(commit) < 0)
		return;
	header->state = LAYER_WRITABLE;
	layer_header_write(header, commit->fd);
}

static int
commit_run(struct commit *commit, const struct layer_watch *watch, char **error)
{
	struct layer_header *header = &commit->layers->header;
	int r = commit_check_layer(commit, error);

	if (r == 0)
		r = commit_open_base(commit, error);
	if (r == 0)
		r = layer_settle(commit->layers, commit->fd);
	if (r < 0)
		return r;
	header->state = LAYER_COMMITTING;
	r = layer_header_write(header, commit->fd);
	if (r < 0)
		return r;
	r = commit_give_all(commit, watch, error);
	if (r < 0) {
		commit_give_up(commit);
		return r;
	}
	r = commit_settle_base(commit);
	if (r < 0)
		return error_set(error, r, "%s: syncing it: %s", header->path, strerror(-r));
	return commit_empty(commit);
}

int
layer_commit(const struct layer_wish *wish, const struct layer_watch *watch, uint64_t *given,
	     char **error)
{
	struct layer_wish own = *wish;
	int CLEANUP_CLOSE fd = layer_open_alone(wish->path, error);
	struct commit commit = {.wish = wish, .fd = fd, .base = -1};
	int r;

	*given = 0;
	if (fd < 0)
		return fd;
	own.force = own.changed_base = false;
	own.commit = true;
	r = layers_open(fd, &own, &commit.layers, error);
	if (r == 0)
		r = commit_run(&commit, watch, error);
	*given = commit.given;
	layers_close(commit.layers);
	if (commit.base >= 0)
		close(commit.base);
	return r < 0 && !*error ? error_set(error, r, "%s: %s", wish->path, strerror(-r)) : r;
}
