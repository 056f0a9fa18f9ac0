/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An open chain: a layer, its base, the base of that, and so on, down to raw bytes or to nothing.
 * It finds for each byte of the disk the file that has it, without asking one layer after another,
 * and it reads. Only the topmost layer is written to: layer_keeper.h.
 *
 * Opening a chain is where files of strangers are looked at. A base must lie in the directory tree
 * of its layer, or in one that the configuration allows; it is locked against writers, and must be
 * what the layer says that it was.
 */
#ifndef ENGINE_LAYER_LAYER_H
#define ENGINE_LAYER_LAYER_H

#include "engine/layer/layer_format.h"
#include "engine/layer/layer_hold.h"
#include "engine/layer/layer_map.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

/* The most files below the topmost layer. */
#define LAYER_DEPTH_MAX 64

/* The number, for layers_fd(), of what has only zeroes. */
#define LAYER_ZEROES 255

struct layer_file {
	int fd;         /* the topmost layer's is not the chain's own */
	char *path;     /* for messages */
	uint64_t start; /* where the disk begins in it, in bytes */
	uint64_t limit; /* what it has at and beyond this offset of the disk is not visible */
	dev_t device;
	ino_t inode;
	struct layer_hold hold; /* of a base */
};

struct layers {
	struct layer_header header; /* the topmost layer's; layer_keeper.c writes it */
	struct layer_map map;
	bool temporary; /* the topmost layer is thrown away: nothing is read from its file or kept
			   there but its granules */
	uint8_t top;    /* the owner of what the topmost layer holds */
	int zeroes;     /* /dev/zero, for what no file has */
	/* By owner, up to .top: the topmost, those below it, and a bottom without bytes. */
	struct layer_file files[LAYER_DEPTH_MAX + 2];

	bool mixed; /* a base has changed since its layer was made: changed-base=on */

	/* The opening that the header had, and the one that it gets before the first change. A
	 * layer that is open for reading keeps its own. */
	uint64_t found, opening;

	/* layer_keeper.c's. */
	_Atomic bool entered;       /* the header has .opening */
	bool held;                  /* the stable map had granules when the layer was opened */
	pthread_mutex_t marking;    /* guards the pages' members and the list */
	struct layer_page *stale;   /* whose bits the stable map lacks */
	_Atomic uint64_t marks;     /* calls that have marked granules, or are about to */
	_Atomic uint64_t durable;   /* of these, how many are in the stable map */
	pthread_mutex_t committing; /* held during a commit, and guards the next one */
	uint64_t good;              /* number of the last commit that has succeeded */
	bool told_failure;          /* the header says that a sync has failed */
	_Atomic uint64_t commits;   /* that have begun */
};

/* Reads the header that counts. Returns 0, or -errno with *error, a sentence that begins with
 * `path` (the caller frees it). */
int
layer_header_read(int fd, const char *path, struct layer_header *header, char **error);

/* Reads up to the end of the file. Returns the number of bytes, or -errno. */
ssize_t
layer_read_all(int fd, void *buffer, size_t length, uint64_t offset);

/* Returns the size of a file or block device in bytes, or -errno. */
int64_t
layer_base_size(int fd, const struct stat *st);

/* Returns a descriptor for reading of the base that a header names, if it lies where bases may; or
 * -errno with *error, as above. `fd` is that of the layer, and `allowed` a wish's .base_path. */
int
layer_open_base(int fd, const char *layer, const struct layer_header *header, const char *allowed,
		char **error);

/* Compares a base with what its layer says of it. `below`: its header; NULL: it is raw. Returns 0;
 * 1: it has changed, and the wish allows that; or -errno with *error, as above. */
int
layer_check_base(const struct layer_wish *wish, const char *layer,
		 const struct layer_header *header, const struct layer_header *below,
		 const struct stat *st, int64_t size, char **error);

/* Opens the chain whose topmost layer is open as `fd`, which stays the caller's and outlives the
 * chain. May wait for the file system. Returns 0 and the caller closes *layers with layers_close(),
 * or -errno with *error, as above. */
int
layers_open(int fd, const struct layer_wish *wish, struct layers **layers, char **error);

/* Makes a chain of a file with `size` raw bytes alone, for layers_put_temporary(). Returns 0 and
 * the caller closes *layers with layers_close(), or -ENOMEM. */
int
layers_open_raw(const char *path, uint64_t size, struct layers **layers);

/* Puts a temporary layer, whose empty file is open as `fd`, on an open chain whose topmost file is
 * open as `below`. The chain takes over `below`; `fd` stays the caller's, as above. Returns 0; or
 * -ELOOP: the chain is too long, and has not changed. */
int
layers_put_temporary(struct layers *layers, int below, int fd);

/* Makes the topmost layer, open as `fd`, the owner of the granules in its recent map. Returns 0, or
 * -errno; -EBADMSG: a block is damaged. */
int
layers_load_recent(struct layers *layers, int fd);

/* NULL is allowed. */
void
layers_close(struct layers *layers);

/* Returns where the bytes from `place` on, at most up to `end`, stop to be in one file; both in
 * bytes of the disk. *below tells the file: 0 is the topmost layer, and others are for layers_fd();
 * *offset is where the bytes begin in it. */
static inline uint64_t
layers_run(const struct layers *layers, uint64_t place, uint64_t end, uint8_t *below,
	   uint64_t *offset)
{
	uint8_t owner;
	uint64_t until = layer_map_run(&layers->map, place, end, &owner);
	const struct layer_file *file = &layers->files[owner];

	*offset = file->start + place;
	*below = 0;
	if (owner == layers->top)
		return until;
	*below = place < file->limit ? (uint8_t)(owner + 1) : LAYER_ZEROES;
	return place < file->limit && until > file->limit ? file->limit : until;
}

/* Returns the descriptor of a file below the topmost layer. */
static inline int
layers_fd(const struct layers *layers, uint8_t below)
{
	return below == LAYER_ZEROES ? layers->zeroes : layers->files[below - 1].fd;
}

/* Sets `trouble`, a text of at most `room` bytes with its NUL: what has come up since the chain was
 * opened that may change a base; else "". */
void
layers_look(const struct layers *layers, char *trouble, size_t room);

/* Reads bytes of the disk. Returns 0 or -errno; -EIO also if a file is too short. */
int
layers_read(const struct layers *layers, void *buffer, size_t length, uint64_t place);

#endif
