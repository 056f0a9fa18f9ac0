/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/layer/layer.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t
layer_read_all(int fd, void *buffer, size_t length, uint64_t offset)
{
	size_t got = 0;

	while (got < length) {
		ssize_t n = pread(fd, (char *)buffer + got, length - got, (off_t)(offset + got));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (ssize_t)got;
}

/* ---- the header */

int
layer_header_read(int fd, const char *path, struct layer_header *header, char **error)
{
	uint8_t bytes[2][LAYER_HEADER_SIZE];
	struct layer_header other;
	ssize_t n = layer_read_all(fd, bytes, sizeof(bytes), 0);
	int first, second;

	if (n < 0)
		return error_set(error, (int)n, "%s: %s", path, strerror((int)-n));
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
	if (first == -EILSEQ && second == -EILSEQ)
		return error_set(error, -EBADMSG,
				 "%s: it is named as a layer, but does not begin as a layer does; "
				 "rename it if it has raw bytes",
				 path);
	return error_set(error, -EBADMSG, "%s: both headers of the layer are damaged", path);
}

/* ---- maps */

/* How many bytes of a map are read at once. */
#define MAP_READ (64u << 10)

/* The most damaged blocks of one map that may be writes which a power cut has torn. */
#define TORN_MAX 1024

/* One map of a layer, while it is read. */
struct map_reader {
	struct layers *layers;
	const struct layer_header *header;
	int fd;
	uint64_t at;   /* where the map begins, in bytes */
	uint8_t owner; /* of its granules */
	bool recent;
	/* Damaged blocks; those of the first stable map while the second one is read. */
	uint64_t torn[TORN_MAX], torn_before[TORN_MAX];
	size_t torn_count, torn_before_count;
};

/* Makes the owner that of the granules of a map block. Returns 0 or -ENOMEM. */
static int
map_adopt(const struct map_reader *reader, const struct layer_block *block)
{
	struct layers *layers = reader->layers;
	const uint64_t first = block->number * LAYER_BLOCK_GRANULES;
	struct layer_page *page = NULL;

	for (unsigned int i = 0; i < LAYER_BLOCK_GRANULES; i++) {
		/* A base may be larger than the layers on it. */
		if (!(block->words[i / 64] >> i % 64 & 1) || first + i >= layers->map.granules)
			continue;
		page = page ? page : layer_map_page(&layers->map, first);
		if (!page)
			return -ENOMEM;
		layer_map_set(&layers->map, first + i, reader->owner);
		if (reader->owner == layers->top)
			page->bits[i / 64] |= UINT64_C(1) << i % 64;
	}
	if (page && reader->owner == layers->top && page->generation < block->generation)
		page->generation = block->generation;
	return 0;
}

/* A damaged block can be the remains of a write that a power cut has torn: of a layer that was in
 * use then, if the other generation is whole. */
static int
map_note_torn(struct map_reader *reader, uint64_t number)
{
	if (reader->recent || reader->header->state == LAYER_SEALED || !reader->header->boot[0] ||
	    reader->torn_count == TORN_MAX)
		return -EBADMSG;
	for (size_t i = 0; i < reader->torn_before_count; i++) {
		if (reader->torn_before[i] == number)
			return -EBADMSG;
	}
	reader->torn[reader->torn_count++] = number;
	return 0;
}

static int
map_take_block(struct map_reader *reader, uint64_t number, const uint8_t *bytes)
{
	struct layer_block block;
	int r = layer_block_decode(&block, &reader->header->id, number, bytes);

	if (r == 0 && block.generation &&
	    layer_block_at(reader->header, 0, block.generation) != reader->at)
		r = -EBADMSG;
	return r == 0 ? map_adopt(reader, &block) : map_note_torn(reader, number);
}

static int
map_read(struct map_reader *reader)
{
	const uint64_t end =
		reader->at +
		layer_blocks_for(reader->header->size, reader->header->granule) * LAYER_BLOCK_SIZE;
	uint8_t *CLEANUP_FREE bytes = malloc(MAP_READ);
	int r = bytes ? 0 : -ENOMEM;

	for (uint64_t place = reader->at; r == 0 && place < end;) {
		/* Most of a map is a hole. */
		off_t next = lseek(reader->fd, (off_t)place, SEEK_DATA);
		size_t size;
		ssize_t n;

		if (next < 0 && errno == ENXIO)
			break;
		if (next > (off_t)place)
			place += ((uint64_t)next - place) / LAYER_BLOCK_SIZE * LAYER_BLOCK_SIZE;
		if (place >= end)
			break;
		size = end - place < MAP_READ ? (size_t)(end - place) : MAP_READ;
		n = layer_read_all(reader->fd, bytes, size, place);
		if (n != (ssize_t)size)
			return n < 0 ? (int)n : -EBADMSG;
		for (size_t i = 0; i < size / LAYER_BLOCK_SIZE && r == 0; i++)
			r = map_take_block(reader, (place - reader->at) / LAYER_BLOCK_SIZE + i,
					   bytes + i * LAYER_BLOCK_SIZE);
		place += size;
	}
	return r;
}

/* The next commit of these blocks writes where they are damaged. */
static int
map_plan_repair(const struct map_reader *reader, const uint64_t *torn, size_t count, uint64_t slot)
{
	struct layers *layers = reader->layers;

	for (size_t i = 0; i < count; i++) {
		struct layer_page *page =
			torn[i] < layers->map.count
				? layer_map_page(&layers->map, torn[i] * LAYER_BLOCK_GRANULES)
				: NULL;

		if (!page)
			return -ENOMEM;
		page->damaged = true;
		if ((page->generation + 1) % 2 != slot)
			page->generation++;
	}
	return 0;
}

/* Reads both stable maps of a layer. */
static int
map_load_stable(struct layers *layers, int fd, const struct layer_header *header, uint8_t owner,
		size_t *torn)
{
	struct map_reader *CLEANUP_FREE reader = calloc(1, sizeof(*reader));
	int r;

	if (!reader)
		return -ENOMEM;
	*reader = (struct map_reader){
		.layers = layers,
		.header = header,
		.fd = fd,
		.at = LAYER_STABLE_AT,
		.owner = owner,
	};
	r = map_read(reader);
	memcpy(reader->torn_before, reader->torn, sizeof(reader->torn));
	reader->torn_before_count = reader->torn_count;
	reader->torn_count = 0;
	reader->at = header->other_at;
	if (r == 0)
		r = map_read(reader);
	*torn = reader->torn_before_count + reader->torn_count;
	if (r == 0)
		r = map_plan_repair(reader, reader->torn_before, reader->torn_before_count, 0);
	if (r == 0)
		r = map_plan_repair(reader, reader->torn, reader->torn_count, 1);
	return r;
}

int
layers_load_recent(struct layers *layers, int fd)
{
	struct map_reader *CLEANUP_FREE reader = calloc(1, sizeof(*reader));

	if (!reader)
		return -ENOMEM;
	*reader = (struct map_reader){
		.layers = layers,
		.header = &layers->header,
		.fd = fd,
		.at = layers->header.recent_at,
		.owner = layers->top,
		.recent = true,
	};
	return map_read(reader);
}

/* ---- opening a base */

#define BASE_FLAGS (O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK)

/* Sets where an open file really is, an absolute path without links. Returns its length or -errno.
 */
static ssize_t
chain_where(int fd, char path[4096])
{
	char link[64];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, 4095);
	if (n < 0)
		return -errno;
	path[n] = '\0';
	return n;
}

/* For kernels without openat2(), before 5.6: looks afterwards where the file lies. */
static int
chain_open_and_look(int dir, const char *path)
{
	int CLEANUP_CLOSE fd = openat(dir, path, BASE_FLAGS);
	char root[4096], file[4096];
	ssize_t length;

	if (fd < 0)
		return -errno;
	length = chain_where(dir, root);
	if (length < 0 || chain_where(fd, file) < 0)
		return -errno;
	while (length > 0 && root[length - 1] == '/')
		length--;
	if (strncmp(file, root, (size_t)length) != 0 || file[length] != '/')
		return -EXDEV;
	return steal_fd(&fd);
}

static int
chain_open_beneath(int dir, const char *path)
{
	struct open_how how = {
		.flags = BASE_FLAGS,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));

	if (fd < 0 && errno == ENOSYS)
		return chain_open_and_look(dir, path);
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

/* Returns a descriptor of the directory in which an open file lies, or -errno. It does not follow
 * the path by which the file was opened: a link there may lead elsewhere by now. */
static int
chain_directory(int fd)
{
	char path[4096];
	struct stat st, seen;
	int CLEANUP_CLOSE dir = -1;
	char *name;

	if (chain_where(fd, path) < 0 || fstat(fd, &st) < 0)
		return -errno;
	name = strrchr(path, '/');
	if (!name)
		return -ENOENT;
	*name++ = '\0';
	dir = open(path[0] ? path : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || fstatat(dir, name, &seen, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	if (seen.st_dev != st.st_dev || seen.st_ino != st.st_ino)
		return -ESTALE;
	return steal_fd(&dir);
}

int
layer_open_base(int fd, const char *layer, const struct layer_header *header, const char *allowed,
		char **error)
{
	int CLEANUP_CLOSE dir = chain_directory(fd);

	return dir < 0 ? error_set(error, dir, "%s: its directory: %s", layer, strerror(-dir))
		       : chain_open_base(dir, layer, header->path, allowed, error);
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

int64_t
layer_base_size(int fd, const struct stat *st)
{
	uint64_t bytes;

	if (S_ISREG(st->st_mode))
		return st->st_size;
	if (!S_ISBLK(st->st_mode))
		return -ENOTBLK;
	return ioctl(fd, BLKGETSIZE64, &bytes) < 0 ? -errno : (int64_t)bytes;
}

static int
chain_changed(const struct layer_wish *wish, char **error, const char *layer, const char *path,
	      const char *what)
{
	if (wish->changed_base) {
		log_warning("%s: its base %s has changed: %s; with changed-base=on it is used all "
			    "the same",
			    layer, path, what);
		return 1;
	}
	return error_set(
		error, -ESTALE,
		"%s: its base %s has changed since the layer was made: %s; changed-base=on serves "
		"a mixture of both",
		layer, path, what);
}

int
layer_check_base(const struct layer_wish *wish, const char *layer,
		 const struct layer_header *header, const struct layer_header *below,
		 const struct stat *st, int64_t size, char **error)
{
	const char *path = header->path;

	if (below && memcmp(&below->id, &header->base_id, sizeof(below->id)) != 0)
		return error_set(error, -ESTALE, "%s: its base %s is another layer now", layer,
				 path);
	if (below && below->state != LAYER_SEALED)
		return error_set(error, -EBUSY, "%s: its base %s is not sealed", layer, path);
	if (below && (uint64_t)size < below->data_at + below->size)
		return error_set(error, -EBADMSG, "%s: its base %s was cut short", layer, path);
	if (below && below->granule != header->granule)
		return error_set(error, -ENOTSUP, "%s: its base %s has other granules", layer,
				 path);
	/* A commit changes it, and lets it grow. */
	if (!below && header->state == LAYER_COMMITTING && (uint64_t)size > header->base_size &&
	    (uint64_t)size <= header->size)
		return 0;
	if (!below && (uint64_t)size != header->base_size)
		return chain_changed(wish, error, layer, path, "its size is another one");
	if (!below && S_ISREG(st->st_mode) && header->state != LAYER_COMMITTING &&
	    chain_modified(st) != header->base_modified)
		return chain_changed(wish, error, layer, path, "it was modified later");
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

/* Adds the base of the last layer. Returns 0, or -errno with *error. */
static int
chain_add_base(struct chain *chain, char **error)
{
	const struct layer_header *header = &chain->headers[chain->count - 1];
	struct layer_header *below = &chain->headers[chain->count];
	const char *layer = chain->files[chain->count - 1].path;
	struct layer_file *file = &chain->files[chain->count];
	struct layer_hold hold;
	int CLEANUP_CLOSE fd = layer_open_base(chain->files[chain->count - 1].fd, layer, header,
					       chain->wish->base_path, error);
	struct stat st;
	int64_t size;
	int r;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st) < 0)
		return error_set(error, -errno, "%s: %s", header->path, strerror(errno));
	size = layer_base_size(fd, &st);
	if (size < 0)
		return error_set(error, (int)size,
				 "%s: its base %s is not a regular file or a block "
				 "device",
				 layer, header->path);
	fcntl(fd, F_SETFL, 0);
	r = chain_check_circle(chain, &st, header->path, error);
	/* Its own bytes never tell what it is: whoever writes to raw bytes can forge a header. */
	chain->raw = header->base == LAYER_BASE_RAW;
	if (r == 0)
		r = layer_hold_begin(&hold, fd, chain->raw, layer, header->path, chain->wish,
				     error);
	if (r < 0)
		return r;
	/* Nobody changes it any more: what is compared now stays so. */
	if (fstat(fd, &st) < 0 || (size = layer_base_size(fd, &st)) < 0)
		r = error_set(error, -EIO, "%s: its base %s can't be looked at", layer,
			      header->path);
	if (r == 0 && !chain->raw)
		r = layer_header_read(fd, header->path, below, error);
	if (r == 0)
		r = layer_check_base(chain->wish, layer, header, chain->raw ? NULL : below, &st,
				     size, error);
	chain->layers->mixed = chain->layers->mixed || r > 0;
	*file = (struct layer_file){
		.path = r < 0 ? NULL : strdup(header->path),
		.start = chain->raw ? 0 : below->data_at,
		.device = st.st_dev,
		.inode = st.st_ino,
		.hold = hold,
	};
	if (!file->path) {
		layer_hold_end(&file->hold, fd);
		return r < 0 ? r : -ENOMEM;
	}
	file->fd = steal_fd(&fd);
	chain->count++;
	return 0;
}

/* Adds one base after the other. */
static int
chain_descend(struct chain *chain, char **error)
{
	int r = 0;

	while (r == 0 && !chain->raw && chain->headers[chain->count - 1].base != LAYER_BASE_NONE)
		r = chain_add_base(chain, error);
	return r;
}

/* ---- the maps of the files */

/* Makes `owner` the owner of what a layer's stable map has. */
static int
chain_load(struct layers *layers, uint8_t owner, const struct layer_header *header, char **error)
{
	const struct layer_file *file = &layers->files[owner];
	size_t torn = 0;
	int r = map_load_stable(layers, file->fd, header, owner, &torn);

	if (r == 0 && torn)
		log_warning("%s: %zu blocks of the layer's map are damaged, as a power cut may "
			    "leave them; their other copies are used",
			    file->path, torn);
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
	layers->found = layers->opening = top->opening;
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

static struct layers *
layers_make(void)
{
	struct layers *layers = calloc(1, sizeof(*layers));

	if (!layers)
		return NULL;
	layers->zeroes = -1;
	pthread_mutex_init(&layers->marking, NULL);
	pthread_mutex_init(&layers->committing, NULL);
	return layers;
}

int
layers_open(int fd, const struct layer_wish *wish, struct layers **result, char **error)
{
	struct chain *CLEANUP_FREE chain = calloc(1, sizeof(*chain));
	struct layers *layers = layers_make();
	struct stat st;
	int r = -ENOMEM;

	if (!chain || !layers) {
		layers_close(layers);
		return r;
	}
	chain->layers = layers;
	chain->wish = wish;
	r = layer_header_read(fd, wish->path, &chain->headers[0], error);
	if (r == 0 && chain->headers[0].state == LAYER_COMMITTING && !wish->commit)
		r = error_set(error, -EBUSY,
			      "%s: a commit into its base was interrupted; `nbdloop layer commit "
			      "%s` carries it on",
			      wish->path, wish->path);
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
		if (i > 0) {
			layer_hold_end(&chain->files[i].hold, chain->files[i].fd);
			close(chain->files[i].fd);
		}
		free(chain->files[i].path);
	}
	if (r < 0)
		layers_close(layers);
	else
		*result = layers;
	return r;
}

/* ---- temporary layers */

int
layers_open_raw(const char *path, uint64_t size, struct layers **result)
{
	struct layers *layers = layers_make();
	int r;

	if (!layers)
		return -ENOMEM;
	layers->header = (struct layer_header){.size = size, .granule = LAYER_GRANULE_MIN};
	layers->files[LAYER_BOTTOM] =
		(struct layer_file){.fd = -1, .path = strdup(path), .limit = UINT64_MAX};
	r = layer_map_init(&layers->map, size, LAYER_GRANULE_MIN);
	if (r < 0 || !layers->files[LAYER_BOTTOM].path) {
		layers_close(layers);
		return -ENOMEM;
	}
	*result = layers;
	return 0;
}

int
layers_put_temporary(struct layers *layers, int below, int fd)
{
	const unsigned int top = layers->top + 1u;

	if (top >= sizeof(layers->files) / sizeof(layers->files[0]))
		return -ELOOP;
	layers->files[layers->top].fd = below;
	layers->files[top] = (struct layer_file){.fd = fd, .limit = UINT64_MAX};
	layers->top = (uint8_t)top;
	layers->temporary = true;
	/* The header is of no file. */
	atomic_store(&layers->entered, true);
	layers->header.state = LAYER_WRITABLE;
	layers->header.data_at = 0;
	return 0;
}

void
layers_close(struct layers *layers)
{
	if (!layers)
		return;
	for (unsigned int owner = 0; owner <= layers->top; owner++) {
		if (owner < layers->top && layers->files[owner].fd >= 0 &&
		    layers->files[owner].path) {
			layer_hold_end(&layers->files[owner].hold, layers->files[owner].fd);
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

void
layers_look(const struct layers *layers, char trouble[BACKING_TROUBLE])
{
	trouble[0] = '\0';
	for (unsigned int owner = 0; owner < layers->top && !trouble[0]; owner++) {
		const struct layer_file *file = &layers->files[owner];

		if (file->path)
			layer_hold_look(&file->hold, file->fd, file->path, trouble);
	}
}

/* ---- reading */

int
layers_read(const struct layers *layers, void *buffer, size_t length, uint64_t place)
{
	const uint64_t end = place + length;
	char *to = buffer;
	int r = 0;

	while (place < end && r == 0) {
		uint8_t below;
		uint64_t offset, until = layers_run(layers, place, end, &below, &offset);

		ssize_t n = layer_read_all(below ? layers_fd(layers, below)
						 : layers->files[layers->top].fd,
					   to, (size_t)(until - place), offset);

		if (n != (ssize_t)(until - place))
			r = n < 0 ? (int)n : -EIO;
		to += until - place;
		place = until;
	}
	return r;
}
