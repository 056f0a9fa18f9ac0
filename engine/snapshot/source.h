/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file that a snapshot copies from, with descriptors of its own, because a privilege that
 * opening the file needs may be gone.
 */
#ifndef ENGINE_SNAPSHOT_SOURCE_H
#define ENGINE_SNAPSHOT_SOURCE_H

#include "engine/backing/backing.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct source {
	struct backing backing; /* without a path */
	uint64_t direct_end;    /* offset from which the page cache is always used: direct.h */
};

/* Duplicates the descriptors of an open file or block device. Returns 0 or -errno; the caller
 * closes it in any case. */
int
source_open(struct source *source, const struct backing *backing, uint64_t direct_end);

/* May be called again. */
void
source_close(struct source *source);

/* Reads all bytes, by direct I/O if that is wanted and their alignment allows it. May wait for the
 * disk. Returns 0, -ENODATA if the file ends before them, or -errno; then *reached is the offset of
 * the first byte that was not read. */
int
source_read(const struct source *source, bool direct, void *buffer, size_t length, uint64_t offset,
	    uint64_t *reached);

/* Whether such a read can be a direct one. */
bool
source_takes_direct(const struct source *source, const void *buffer, size_t length,
		    uint64_t offset);

/* Whether there is only a hole from `from` to `to`. Beyond the end of the file there is none, but
 * what was truncated. */
bool
source_is_hole(const struct source *source, uint64_t from, uint64_t to);

#endif
