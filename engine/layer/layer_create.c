/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/layer/layer_create.h"

#include "engine/backing/file/lock.h"
#include "engine/layer/layer.h"
#include "engine/layer/layer_format.h"
#include "engine/layer/layer_keeper.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the base */

static int
create_take_layer(struct layer_header *header, int fd, const char *base, char **error)
{
	struct layer_header below;
	int r = layer_header_read(fd, base, &below, error);

	if (r < 0)
		return r;
	if (below.state != LAYER_SEALED)
		return error_set(
			error, -EBUSY,
			"%s: this layer is still written to; `nbdloop clone --seal %s` makes "
			"it a base",
			base, base);
	if (header->granule && header->granule != below.granule)
		return error_set(error, -EINVAL,
				 "%s: layers on this one must have its granules, %llu bytes", base,
				 (unsigned long long)below.granule);
	header->base = LAYER_BASE_LAYER;
	header->base_size = below.size;
	header->base_modified = 0;
	header->base_id = below.id;
	header->granule = below.granule;
	return 0;
}

static int
create_take_raw(struct layer_header *header, int fd, const struct stat *st, const char *base,
		char **error)
{
	uint64_t bytes = (uint64_t)st->st_size;

	if (S_ISBLK(st->st_mode) && ioctl(fd, BLKGETSIZE64, &bytes) < 0)
		return error_set(error, -errno, "%s: %s", base, strerror(errno));
	header->base = LAYER_BASE_RAW;
	header->base_size = bytes;
	header->base_modified = (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
	header->base_id = (struct layer_id){{0}};
	return 0;
}

/* Sets the path of the base: from the layer's directory on, if it lies there, so that both can be
 * moved together. */
static int
create_name_base(struct layer_header *header, const char *path, const char *base, char **error)
{
	char *CLEANUP_FREE copy = strdup(path);
	char *CLEANUP_FREE directory = copy ? realpath(dirname(copy), NULL) : NULL;
	char *CLEANUP_FREE real = realpath(base, NULL);
	const char *name = real;
	size_t length;

	if (!copy || !directory || !real)
		return error_set(error, -errno, "%s: %s", directory ? base : path, strerror(errno));
	length = strlen(directory);
	if (strncmp(real, directory, length) == 0 && real[length] == '/')
		name = real + length + 1;
	if (strlen(name) >= sizeof(header->path))
		return error_set(error, -ENAMETOOLONG, "%s: the path is too long for a layer",
				 base);
	memset(header->path, 0, sizeof(header->path));
	strcpy(header->path, name);
	return 0;
}

int
layer_take_base(struct layer_header *header, const char *path, const char *base, char **error)
{
	static const struct lock_part whole = {0, UINT64_MAX};
	int CLEANUP_CLOSE fd = open(base, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(error, -errno, "%s: %s", base, strerror(errno));
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return error_set(error, -ENOTBLK, "%s: is not a regular file or a block device",
				 base);
	r = lock_take(fd, base, LOCK_AUTO, &whole, false, false, error);
	if (r == 0)
		r = S_ISREG(st.st_mode) && layer_is_named(base)
			    ? create_take_layer(header, fd, base, error)
			    : create_take_raw(header, fd, &st, base, error);
	if (r == 0)
		r = create_name_base(header, path, base, error);
	if (r < 0)
		return r;
	header->size = header->size ? header->size : header->base_size;
	header->visible = header->size < header->base_size ? header->size : header->base_size;
	return steal_fd(&fd);
}

/* ---- the file */

static int
create_write(int fd, const struct layer_header *header)
{
	uint8_t bytes[LAYER_HEADER_SIZE];
	ssize_t n;

	layer_header_encode(header, bytes);
	n = pwrite(fd, bytes, sizeof(bytes), header->sequence % 2 * LAYER_HEADER_SIZE);
	if (n != (ssize_t)sizeof(bytes))
		return n < 0 ? -errno : -ENOSPC;
	return fsync(fd) < 0 ? -errno : 0;
}

/* A file without a name until it is whole. */
static int
create_file(const char *path, const struct layer_header *header)
{
	char *CLEANUP_FREE copy = strdup(path);
	int CLEANUP_CLOSE dir = -1, CLEANUP_CLOSE fd = -1;
	char link[64];
	int r;

	dir = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (dir < 0)
		return -errno;
	fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)(header->data_at + header->size)) < 0)
		return -errno;
	r = create_write(fd, header);
	if (r < 0)
		return r;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (linkat(AT_FDCWD, link, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0)
		return -errno;
	return fsync(dir) < 0 ? -errno : 0;
}

int
layer_create(const char *path, const char *base, uint64_t size, uint64_t granule, char **error)
{
	/* The first header is where a layer is known by. */
	struct layer_header header = {
		.state = LAYER_WRITABLE, .sequence = 2, .size = size, .granule = granule};
	int CLEANUP_CLOSE base_fd = -1;
	int r;

	*error = NULL;
	if (!layer_is_named(path))
		return error_set(error, -EINVAL,
				 "%s: the name of a layer ends in .layer, as in vm1.layer", path);
	/* Nobody may write to the base until the layer is made. */
	base_fd = layer_take_base(&header, path, base, error);
	if (base_fd < 0)
		return base_fd;
	header.granule = header.granule ? header.granule : LAYER_GRANULE_MIN;
	if (header.size > LAYER_SIZE_MAX)
		return error_set(error, -EFBIG, "%s: a disk of %llu bytes is too large for a layer",
				 path, (unsigned long long)header.size);
	layer_header_place(&header);
	if (getrandom(&header.id, sizeof(header.id), 0) != sizeof(header.id))
		return error_set(error, -EIO, "getrandom: %s", strerror(errno));
	r = create_file(path, &header);
	return r < 0 ? error_set(error, r, "%s: %s", path, strerror(-r)) : 0;
}

/* ---- changing a layer that no server has */

int
layer_open_alone(const char *path, char **error)
{
	int CLEANUP_CLOSE fd = -1;
	int r;

	*error = NULL;
	if (!layer_is_named(path))
		return error_set(error, -EINVAL, "%s: the name of a layer ends in .layer", path);
	fd = regular_file_open(path, O_RDWR);
	if (fd < 0)
		return error_set(error, fd, "%s: %s", path, regular_file_strerror(-fd));
	r = lock_take_alone(fd, path, false, error);
	return r < 0 ? r : steal_fd(&fd);
}

int
layer_sync(void *data)
{
	return fdatasync(*(int *)data) < 0 ? -errno : 0;
}

int
layer_header_write(struct layer_header *header, int fd)
{
	int r = 0;

	for (unsigned int copy = 0; copy < 2 && r == 0; copy++) {
		r = layer_sync(&fd);
		header->sequence++;
		if (r == 0)
			r = create_write(fd, header);
	}
	return r;
}

int
layer_settle(struct layers *layers, int fd)
{
	int r = layer_keeper_begin(layers, fd, true);

	/* The write-back of an earlier process may have failed unnoticed. */
	if (r == 0)
		r = create_write(fd, &layers->header);
	if (r == 0)
		r = layer_keeper_commit(layers, fd, layer_keeper_ticket(layers), layer_sync, &fd);
	if (r == 0)
		memset(layers->header.boot, 0, sizeof(layers->header.boot));
	return r;
}

int
layer_seal(const char *path, char **error)
{
	int CLEANUP_CLOSE fd = layer_open_alone(path, error);
	const struct layer_wish wish = {.path = path, .base_path = "/", .lock = LOCK_AUTO};
	struct layers *layers = NULL;
	int r;

	if (fd < 0)
		return fd;
	r = layers_open(fd, &wish, &layers, error);
	if (r < 0)
		return r;
	/* What the last server has acknowledged is in the recent map only. */
	r = layer_settle(layers, fd);
	if (r == 0) {
		layers->header.state = LAYER_SEALED;
		r = layer_header_write(&layers->header, fd);
	}
	layers_close(layers);
	return r < 0 ? error_set(error, r, "%s: %s", path, strerror(-r)) : 0;
}
