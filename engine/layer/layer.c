/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/layer/layer.h"

#include "engine/backing/file/lock.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- the header */

int
layer_is_one(int fd)
{
	char begin[8];
	ssize_t n = pread(fd, begin, sizeof(begin), 0);

	if (n < 0)
		return -errno;
	return n == sizeof(begin) && layer_header_is_one(begin);
}

int
layer_header_read(int fd, const char *path, struct layer_header *header, char **error)
{
	uint8_t bytes[2][LAYER_HEADER_SIZE];
	struct layer_header other;
	ssize_t n = pread(fd, bytes, sizeof(bytes), 0);
	int first, second;

	if (n < 0)
		return error_set(error, -errno, "%s: %s", path, strerror(errno));
	if ((size_t)n < sizeof(bytes))
		return error_set(error, -EBADMSG, "%s: a layer that ends within its header", path);
	first = layer_header_decode(header, bytes[0]);
	second = layer_header_decode(&other, bytes[1]);
	if (second == 0 && (first < 0 || other.sequence > header->sequence))
		*header = other;
	if (first == 0 || second == 0)
		return 0;
	if (first == -ENOTSUP || second == -ENOTSUP)
		return error_set(error, -ENOTSUP,
				 "%s: a layer of a version that this program does not know", path);
	return error_set(error, -EBADMSG, "%s: both headers of the layer are damaged", path);
}

/* ---- maps */

/* How many bytes of a map are read at once. */
#define MAP_READ (64u << 10)

/* Makes `owner` the owner of the granules of a map block. Returns 0 or -ENOMEM. */
static int
layers_adopt(struct layers *layers, const uint64_t *words, uint64_t number, uint8_t owner)
{
	const uint64_t first = number * LAYER_BLOCK_GRANULES;
	struct layer_page *page = NULL;

	for (unsigned int i = 0; i < LAYER_BLOCK_GRANULES; i++) {
		/* A base may be larger than the layers on it. */
		if (!(words[i / 64] >> i % 64 & 1) || first + i >= layers->map.granules)
			continue;
		page = page ? page : layer_map_page(&layers->map, first);
		if (!page)
			return -ENOMEM;
		layer_map_set(&layers->map, first + i, owner);
		if (owner == layers->top)
			page->bits[i / 64] |= UINT64_C(1) << i % 64;
	}
	return 0;
}

int
layers_load(struct layers *layers, int fd, uint64_t at, const struct layer_header *header,
	    uint8_t owner)
{
	const uint64_t end =
		at + layer_blocks_for(header->size, header->granule) * LAYER_BLOCK_SIZE;
	uint8_t *CLEANUP_FREE bytes = malloc(MAP_READ);
	uint64_t words[LAYER_BLOCK_WORDS];
	int r = bytes ? 0 : -ENOMEM;

	for (uint64_t place = at; r == 0 && place < end;) {
		size_t size = end - place < MAP_READ ? (size_t)(end - place) : MAP_READ;
		ssize_t n = pread(fd, bytes, size, (off_t)place);
		off_t next;

		if (n < 0 && errno == EINTR)
			continue;
		if (n != (ssize_t)size)
			return n < 0 ? -errno : -EBADMSG;
		for (size_t i = 0; i < size / LAYER_BLOCK_SIZE && r == 0; i++) {
			uint64_t number = (place - at) / LAYER_BLOCK_SIZE + i;

			r = layer_block_decode(words, &header->id, number,
					       bytes + i * LAYER_BLOCK_SIZE);
			if (r == 0)
				r = layers_adopt(layers, words, number, owner);
		}
		place += size;
		/* Most of a map is a hole. */
		next = lseek(fd, (off_t)place, SEEK_DATA);
		if (next > (off_t)place)
			place += ((uint64_t)next - place) / LAYER_BLOCK_SIZE * LAYER_BLOCK_SIZE;
	}
	return r;
}

/* ---- opening a base */

static int
chain_open_beneath(int dir, const char *path)
{
	struct open_how how = {
		.flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

/* Opens the file `real`, an absolute path without links, if it lies in the directory `root`. */
static int
chain_open_in_root(const char *root, const char *real)
{
	char *CLEANUP_FREE resolved = realpath(root, NULL);
	size_t length = resolved ? strlen(resolved) : 0;
	int CLEANUP_CLOSE dir = -1;

	if (!resolved)
		return -EXDEV;
	while (length > 0 && resolved[length - 1] == '/')
		length--;
	if (strncmp(real, resolved, length) != 0 || real[length] != '/')
		return -EXDEV;
	dir = open(resolved, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return dir < 0 ? -errno : chain_open_beneath(dir, real + length + 1);
}

/* Opens a base that does not lie beneath its layer's directory, if the configuration allows it. */
static int
chain_open_allowed(int dir, const char *path, const char *allowed)
{
	char *CLEANUP_FREE roots = strdup(allowed ? allowed : "");
	char *CLEANUP_FREE whole = NULL, *CLEANUP_FREE real = NULL;
	char *rest = NULL;
	int r = -EXDEV;

	if (path[0] == '/')
		whole = strdup(path);
	else if (asprintf(&whole, "/proc/self/fd/%d/%s", dir, path) < 0)
		whole = NULL;
	if (!whole || !roots)
		return -ENOMEM;
	real = realpath(whole, NULL);
	if (!real)
		return -errno;
	for (char *root = strtok_r(roots, ":", &rest); root && r == -EXDEV;
	     root = strtok_r(NULL, ":", &rest))
		r = chain_open_in_root(root, real);
	return r;
}

/* Returns a descriptor of the base that a header names, or -errno with *error. */
static int
chain_open_base(int dir, const char *layer, const char *path, const char *allowed, char **error)
{
	int fd = path[0] == '/' ? -EXDEV : chain_open_beneath(dir, path);

	if (fd == -EXDEV || fd == -ELOOP)
		fd = chain_open_allowed(dir, path, allowed);
	if (fd >= 0)
		return fd;
	if (fd == -EXDEV)
		return error_set(
			error, -EACCES,
			"%s: its base %s is not in the layer's directory; base-path=DIRECTORY "
			"allows bases in another one",
			layer, path);
	if (fd == -ENOENT)
		return error_set(error, fd,
				 "%s: its base %s does not exist; the layer needs it at that place",
				 layer, path);
	return error_set(error, fd, "%s: its base %s: %s", layer, path, strerror(-fd));
}

/* ---- the chain, while it is opened from its top down */

struct chain {
	struct layers *layers;
	const struct layer_wish *wish;
	/* From the top down, to be turned round. */
	struct layer_file files[LAYER_DEPTH_MAX + 1];
	struct layer_header headers[LAYER_DEPTH_MAX + 1]; /* of those that are layers */
	unsigned int count;
	bool raw; /* the last one is no layer */
};

static int64_t
chain_modified(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

/* Returns the size of a file or block device in bytes, or -errno. */
static int64_t
chain_size(int fd, const struct stat *st)
{
	uint64_t bytes;

	if (S_ISREG(st->st_mode))
		return st->st_size;
	if (!S_ISBLK(st->st_mode))
		return -ENOTBLK;
	return ioctl(fd, BLKGETSIZE64, &bytes) < 0 ? -errno : (int64_t)bytes;
}

static int
chain_changed(const struct chain *chain, char **error, const char *layer, const char *path,
	      const char *what)
{
	if (chain->wish->force) {
		log_warning("%s: its base %s has changed: %s; it is used all the same (force)",
			    layer, path, what);
		return 0;
	}
	return error_set(
		error, -ESTALE,
		"%s: its base %s has changed since the layer was made: %s; force=on serves a "
		"mixture of both",
		layer, path, what);
}

/* Compares a base with what its layer says of it. `below`: its header; NULL: it is raw. */
static int
chain_check_base(const struct chain *chain, const char *layer, const struct layer_header *header,
		 const struct layer_header *below, const struct stat *st, int64_t size,
		 char **error)
{
	const char *path = header->path;

	if (!!below != (header->base == LAYER_BASE_LAYER))
		return error_set(error, -ESTALE, "%s: its base %s is %s", layer, path,
				 below ? "a layer now, and was raw bytes" : "no layer any more");
	if (below && memcmp(&below->id, &header->base_id, sizeof(below->id)) != 0)
		return error_set(error, -ESTALE, "%s: its base %s is another layer now", layer,
				 path);
	if (below && below->state != LAYER_SEALED)
		return error_set(error, -EBUSY, "%s: its base %s is not sealed", layer, path);
	if (below && below->granule != header->granule)
		return error_set(error, -ENOTSUP, "%s: its base %s has other granules", layer,
				 path);
	if (!below && (uint64_t)size != header->base_size)
		return chain_changed(chain, error, layer, path, "its size is another one");
	if (!below && S_ISREG(st->st_mode) && chain_modified(st) != header->base_modified)
		return chain_changed(chain, error, layer, path, "it was modified later");
	return 0;
}

static int
chain_check_circle(const struct chain *chain, const struct stat *st, const char *path, char **error)
{
	for (unsigned int i = 0; i < chain->count; i++) {
		if (S_ISREG(st->st_mode) && chain->files[i].device == st->st_dev &&
		    chain->files[i].inode == st->st_ino)
			return error_set(error, -ELOOP, "%s: its base %s is above it in the chain",
					 chain->wish->path, path);
	}
	if (chain->count > LAYER_DEPTH_MAX)
		return error_set(error, -ELOOP, "%s: it stands on more than %d files",
				 chain->wish->path, LAYER_DEPTH_MAX);
	return 0;
}

/* Adds the base of the last layer. `dir` is that layer's directory. Returns 0, or -errno with
 * *error. */
static int
chain_add_base(struct chain *chain, int dir, char **error)
{
	static const struct lock_part whole = {0, UINT64_MAX};
	const struct layer_header *header = &chain->headers[chain->count - 1];
	struct layer_header *below = &chain->headers[chain->count];
	const char *layer = chain->files[chain->count - 1].path;
	struct layer_file *file = &chain->files[chain->count];
	int CLEANUP_CLOSE fd =
		chain_open_base(dir, layer, header->path, chain->wish->base_path, error);
	struct stat st;
	int64_t size;
	int r;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return error_set(error, -errno, "%s: %s", header->path, strerror(errno));
	size = chain_size(fd, &st);
	if (size < 0)
		return error_set(error, (int)size,
				 "%s: its base %s is not a regular file or a block "
				 "device",
				 layer, header->path);
	fcntl(fd, F_SETFL, 0);
	r = chain_check_circle(chain, &st, header->path, error);
	if (r == 0)
		r = lock_take(fd, header->path, LOCK_AUTO, &whole, false, false, error);
	if (r < 0)
		return r;
	r = S_ISREG(st.st_mode) ? layer_is_one(fd) : 0;
	chain->raw = r == 0;
	if (r > 0)
		r = layer_header_read(fd, header->path, below, error);
	if (r == 0)
		r = chain_check_base(chain, layer, header, chain->raw ? NULL : below, &st, size,
				     error);
	if (r < 0)
		return r;
	*file = (struct layer_file){
		.path = strdup(header->path),
		.start = chain->raw ? 0 : below->data_at,
		.device = st.st_dev,
		.inode = st.st_ino,
	};
	if (!file->path)
		return -ENOMEM;
	file->fd = steal_fd(&fd);
	chain->count++;
	return 0;
}

/* Returns a descriptor of the directory of a path, or -errno. */
static int
chain_directory(int dirfd, const char *path)
{
	char *CLEANUP_FREE copy = strdup(path);
	int fd = copy ? openat(dirfd, dirname(copy), O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;

	return fd < 0 ? -errno : fd;
}

/* Adds one base after the other. */
static int
chain_descend(struct chain *chain, char **error)
{
	int CLEANUP_CLOSE dir = chain_directory(chain->wish->dirfd, chain->wish->path);
	int r = dir < 0 ? dir : 0;

	while (r == 0 && !chain->raw && chain->headers[chain->count - 1].base != LAYER_BASE_NONE) {
		const char *path = chain->headers[chain->count - 1].path;
		int next;

		r = chain_add_base(chain, dir, error);
		if (r < 0)
			break;
		next = chain_directory(dir, path);
		close(dir);
		dir = next;
		r = dir < 0 ? error_set(error, dir, "%s: %s", path, strerror(-dir)) : 0;
	}
	return r;
}

/* ---- the maps of the files */

/* Makes `owner` the owner of what a layer's stable map has. */
static int
chain_load(struct layers *layers, uint8_t owner, const struct layer_header *header, char **error)
{
	const struct layer_file *file = &layers->files[owner];
	int r = layers_load(layers, file->fd, LAYER_STABLE_AT, header, owner);

	return r < 0 ? error_set(error, r, "%s: its map is damaged or can't be read: %s",
				 file->path, strerror(-r))
		     : 0;
}

/* Turns the chain round: the lowest file first. What a layer does not see of its base, those above
 * it do not see either. */
static int
chain_finish(struct chain *chain, char **error)
{
	struct layers *layers = chain->layers;
	const struct layer_header *top = &chain->headers[0];
	/* Without raw bytes, the bottom has nothing. */
	const unsigned int shift = chain->raw ? 0 : 1;
	uint64_t limit = UINT64_MAX;
	int r = layer_map_init(&layers->map, top->size, top->granule);

	layers->header = *top;
	layers->top = (uint8_t)(chain->count - 1 + shift);
	layers->files[0] = (struct layer_file){.fd = -1};
	for (unsigned int i = 0; i < chain->count; i++) {
		struct layer_file *file = &layers->files[layers->top - i];

		*file = chain->files[i];
		file->limit = limit;
		if (i + 1 < chain->count || !chain->raw)
			limit = limit < chain->headers[i].visible ? limit
								  : chain->headers[i].visible;
	}
	chain->count = 0; /* the files are the layers' now */
	for (unsigned int owner = chain->raw ? 1 : shift; r == 0 && owner <= layers->top; owner++)
		r = chain_load(layers, (uint8_t)owner, &chain->headers[layers->top - owner], error);
	return r;
}

static int
chain_open_zeroes(struct layers *layers, char **error)
{
	layers->zeroes = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	return layers->zeroes < 0 ? error_set(error, -errno, "/dev/zero: %s", strerror(errno)) : 0;
}

int
layers_open(int fd, const struct layer_wish *wish, struct layers **result, char **error)
{
	struct chain *CLEANUP_FREE chain = calloc(1, sizeof(*chain));
	struct layers *layers = calloc(1, sizeof(*layers));
	struct stat st;
	int r = -ENOMEM;

	if (!chain || !layers) {
		free(layers);
		return r;
	}
	layers->zeroes = -1;
	pthread_mutex_init(&layers->marking, NULL);
	pthread_mutex_init(&layers->committing, NULL);
	chain->layers = layers;
	chain->wish = wish;
	r = layer_header_read(fd, wish->path, &chain->headers[0], error);
	if (r == 0 && fstat(fd, &st) < 0)
		r = error_set(error, -errno, "%s: %s", wish->path, strerror(errno));
	if (r == 0 && (uint64_t)st.st_size < chain->headers[0].data_at + chain->headers[0].size)
		r = error_set(
			error, -EBADMSG,
			"%s: the layer was cut short: it has %lld bytes, and needs %llu",
			wish->path, (long long)st.st_size,
			(unsigned long long)(chain->headers[0].data_at + chain->headers[0].size));
	if (r == 0) {
		chain->files[0] = (struct layer_file){
			.fd = fd,
			.path = strdup(wish->path),
			.start = chain->headers[0].data_at,
			.device = st.st_dev,
			.inode = st.st_ino,
		};
		chain->count = 1;
		r = chain->files[0].path ? chain_open_zeroes(layers, error) : -ENOMEM;
	}
	if (r == 0)
		r = chain_descend(chain, error);
	if (r == 0)
		r = chain_finish(chain, error);
	for (unsigned int i = 0; i < chain->count; i++) {
		if (i > 0)
			close(chain->files[i].fd);
		free(chain->files[i].path);
	}
	if (r < 0)
		layers_close(layers);
	else
		*result = layers;
	return r;
}

void
layers_close(struct layers *layers)
{
	if (!layers)
		return;
	for (unsigned int owner = 0; owner <= layers->top; owner++) {
		if (owner < layers->top && layers->files[owner].fd >= 0 &&
		    layers->files[owner].path) {
			lock_drop(layers->files[owner].fd);
			close(layers->files[owner].fd);
		}
		free(layers->files[owner].path);
	}
	if (layers->zeroes >= 0)
		close(layers->zeroes);
	layer_map_fini(&layers->map);
	pthread_mutex_destroy(&layers->committing);
	pthread_mutex_destroy(&layers->marking);
	free(layers);
}

/* ---- reading */

static int
layers_read_file(int fd, char *buffer, size_t length, uint64_t offset)
{
	while (length > 0) {
		ssize_t n = pread(fd, buffer, length, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		buffer += n;
		offset += (uint64_t)n;
		length -= (size_t)n;
	}
	return 0;
}

int
layers_read(const struct layers *layers, void *buffer, size_t length, uint64_t place)
{
	const uint64_t end = place + length;
	char *to = buffer;
	int r = 0;

	while (place < end && r == 0) {
		uint8_t below;
		uint64_t offset, until = layers_run(layers, place, end, &below, &offset);

		r = layers_read_file(below ? layers_fd(layers, below)
					   : layers->files[layers->top].fd,
				     to, (size_t)(until - place), offset);
		to += until - place;
		place = until;
	}
	return r;
}
