/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A directory for each test, on a real file system ($TMPDIR, else /var/tmp), and the images in it.
 * Each failure here fails the test.
 */
#ifndef TESTS_NBD_SCRATCH_H
#define TESTS_NBD_SCRATCH_H

#include <stdbool.h>
#include <stdint.h>

/* Makes the program's directory, before all tests. Returns 0 or -errno. */
int
scratch_init(void);
/* Removes it with all its files, unless LOOP_KEEP is set. */
void
scratch_fini(void);

/* Around each test (checked fixture of Check). */
void
scratch_setup(void);
void
scratch_teardown(void);

const char *
scratch_dir(void);

/* True when files here can be opened for direct I/O. */
bool
scratch_has_direct_io(void);
/* True when the disk beneath has queues that can be polled. */
bool
scratch_has_poll_queues(void);

/* "dir/name"; belongs to scratch and lives until the test ends. */
const char *
scratch_path(const char *name);

/* Makes an image that is one hole, or is filled with a pattern; returns its path, as
 * scratch_path() does. */
const char *
scratch_sparse_image(const char *name, uint64_t size);
const char *
scratch_image(const char *name, uint64_t size, uint32_t pattern);

/* The same for a large image of which a test writes little: only the first 4 KiB of each MiB hold
 * the pattern. */
const char *
scratch_marked_image(const char *name, uint64_t size, uint32_t pattern);

/* Overwrites a part of a file or block device. */
void
scratch_write(const char *path, uint64_t offset, uint64_t length, uint32_t pattern);

/* Fails the test unless a part of a file or block device holds that pattern. */
#define scratch_expect(path, offset, length, pattern)                                              \
	scratch_expect_at(__FILE__, __LINE__, path, offset, length, pattern)
/* The same of those bytes of a scratch_marked_image() from `start` to `end` that have a pattern. */
#define scratch_expect_marks(path, start, end, pattern)                                            \
	scratch_expect_marks_at(__FILE__, __LINE__, path, start, end, pattern)
void
scratch_expect_marks_at(const char *file, int line, const char *path, uint64_t start, uint64_t end,
			uint32_t pattern);
void
scratch_expect_at(const char *file, int line, const char *path, uint64_t offset, uint64_t length,
		  uint32_t pattern);

/* The number of bytes that a file occupies on the disk. */
uint64_t
scratch_allocated(const char *path);

/* Writes a file's data back and drops it from the page cache. */
void
scratch_uncache(const char *path);
/* The number of the file's bytes in the page cache. */
uint64_t
scratch_cached(const char *path);

#endif
