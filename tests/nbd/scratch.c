/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/nbd/scratch.h"

#include "common/cleanup.h"
#include "tests/nbd/ceph_image.h"
#include "tests/nbd/pattern.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define PIECE (1u << 20)

static char program_dir[PATH_MAX / 2]; /* directory of all tests; set by the parent */
static char test_dir[PATH_MAX - 256];  /* directory of the running test; set in its own process */
static char *paths[128];               /* paths that scratch_path() returned */
static unsigned int path_count;

int
scratch_init(void)
{
	const char *parent = getenv("TMPDIR");

	snprintf(program_dir, sizeof(program_dir), "%s/loop-nbd-XXXXXX",
		 parent && *parent ? parent : "/var/tmp");
	if (!mkdtemp(program_dir))
		return -errno;
	/* See tests/service/start. */
	return setenv("NBDLOOP_SERVICE_FILES", program_dir, 1) < 0 ? -errno : 0;
}

static int
remove_entry(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	(void)status;
	(void)type;
	(void)walk;
	/* A mount point that is busy stays; scratch_fini() removes it later. */
	remove(path);
	return 0;
}

static void
remove_tree(const char *path)
{
	nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

void
scratch_fini(void)
{
	if (getenv("LOOP_KEEP"))
		fprintf(stderr, "kept: %s\n", program_dir);
	else
		remove_tree(program_dir);
}

void
scratch_setup(void)
{
	snprintf(test_dir, sizeof(test_dir), "%s/XXXXXX", program_dir);
	ck_assert_msg(mkdtemp(test_dir) != NULL, "%s: %s", test_dir, strerror(errno));
	/* A server that runs as another user must have access. */
	chmod(test_dir, 0755);
}

void
scratch_teardown(void)
{
	ceph_image_remove_all();
	if (!getenv("LOOP_KEEP"))
		remove_tree(test_dir);
	while (path_count > 0)
		free(paths[--path_count]);
}

const char *
scratch_dir(void)
{
	return test_dir;
}

bool
scratch_has_direct_io(void)
{
	char path[PATH_MAX];
	int CLEANUP_CLOSE fd = -1;

	snprintf(path, sizeof(path), "%s/direct", program_dir);
	fd = open(path, O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
	unlink(path);
	return fd >= 0;
}

bool
scratch_has_poll_queues(void)
{
	/* A partition uses the queue of its disk, one directory up. */
	static const char *const places[] = {"", "/.."};
	struct stat status;

	if (stat(program_dir, &status) != 0)
		return false;
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		char path[PATH_MAX];
		char value = '0';
		int CLEANUP_CLOSE fd = -1;

		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u%s/queue/io_poll",
			 major(status.st_dev), minor(status.st_dev), places[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, &value, 1) == 1)
			return value == '1';
	}
	return false;
}

const char *
scratch_path(const char *name)
{
	char *path = NULL;

	ck_assert_uint_lt(path_count, sizeof(paths) / sizeof(paths[0]));
	ck_assert_int_ge(asprintf(&path, "%s/%s", test_dir, name), 0);
	paths[path_count++] = path;
	return path;
}

const char *
scratch_sparse_image(const char *name, uint64_t size)
{
	const char *path = scratch_path(name);
	int CLEANUP_CLOSE fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
	ck_assert_msg(ftruncate(fd, (off_t)size) == 0, "%s: %s", path, strerror(errno));
	return path;
}

const char *
scratch_image(const char *name, uint64_t size, uint32_t pattern)
{
	const char *path = scratch_sparse_image(name, size);

	scratch_write(path, 0, size, pattern);
	return path;
}

void
scratch_write(const char *path, uint64_t offset, uint64_t length, uint32_t pattern)
{
	int CLEANUP_CLOSE fd = open(path, O_WRONLY | O_CLOEXEC);
	char *CLEANUP_FREE buffer = malloc(PIECE);

	ck_assert_msg(!ceph_image_is_imported(path), "%s: its server has a copy already", path);
	ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
	ck_assert_ptr_nonnull(buffer);
	while (length > 0) {
		size_t piece = length < PIECE ? length : PIECE;
		ssize_t n;

		pattern_fill(buffer, piece, offset, pattern);
		n = pwrite(fd, buffer, piece, (off_t)offset);
		ck_assert_msg(n == (ssize_t)piece, "%s: writing: %s", path,
			      n < 0 ? strerror(errno) : "short");
		offset += piece;
		length -= piece;
	}
	/* The figures that a test counts (allocated blocks, a device's requests) must not change
	 * by themselves. */
	ck_assert_int_eq(fsync(fd), 0);
}

void
scratch_expect_at(const char *file, int line, const char *path, uint64_t offset, uint64_t length,
		  uint32_t pattern)
{
	int CLEANUP_CLOSE fd = -1;
	unsigned char *CLEANUP_FREE buffer = malloc(PIECE);

	ceph_image_update(path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
	ck_assert_ptr_nonnull(buffer);
	while (length > 0) {
		size_t piece = length < PIECE ? length : PIECE;
		ssize_t n = pread(fd, buffer, piece, (off_t)offset);
		ssize_t at;

		if (n != (ssize_t)piece)
			ck_abort_msg("%s:%d: %s: read %zd of %zu bytes at %llu", file, line, path,
				     n, piece, (unsigned long long)offset);
		at = pattern_mismatch(buffer, piece, offset, pattern);
		if (at >= 0)
			ck_abort_msg(
				"%s:%d: %s: wrong byte 0x%02x at offset %llu, expected pattern %u",
				file, line, path, buffer[at],
				(unsigned long long)offset + (unsigned long long)at, pattern);
		offset += piece;
		length -= piece;
	}
}

#define MARK_LENGTH   4096u
#define MARK_DISTANCE (UINT64_C(1) << 20)

const char *
scratch_marked_image(const char *name, uint64_t size, uint32_t pattern)
{
	const char *path = scratch_sparse_image(name, size);
	int CLEANUP_CLOSE fd = open(path, O_WRONLY | O_CLOEXEC);
	char mark[MARK_LENGTH];

	ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
	for (uint64_t start = 0; start < size; start += MARK_DISTANCE) {
		pattern_fill(mark, sizeof(mark), start, pattern);
		ck_assert_int_eq(pwrite(fd, mark, sizeof(mark), (off_t)start), sizeof(mark));
	}
	ck_assert_int_eq(fsync(fd), 0);
	return path;
}

void
scratch_expect_marks_at(const char *file, int line, const char *path, uint64_t start, uint64_t end,
			uint32_t pattern)
{
	for (uint64_t mark = start - start % MARK_DISTANCE; mark < end; mark += MARK_DISTANCE) {
		uint64_t from = mark > start ? mark : start;
		uint64_t to = mark + MARK_LENGTH < end ? mark + MARK_LENGTH : end;

		if (from < to)
			scratch_expect_at(file, line, path, from, to - from, pattern);
	}
}

uint64_t
scratch_allocated(const char *path)
{
	struct stat status;

	ck_assert_msg(stat(path, &status) == 0, "%s: %s", path, strerror(errno));
	return (uint64_t)status.st_blocks * 512;
}

void
scratch_uncache(const char *path)
{
	int CLEANUP_CLOSE fd = open(path, O_RDONLY | O_CLOEXEC);

	ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
	ck_assert_int_eq(fsync(fd), 0);
	ck_assert_int_eq(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
}

uint64_t
scratch_cached(const char *path)
{
	int CLEANUP_CLOSE fd = open(path, O_RDONLY | O_CLOEXEC);
	unsigned char *CLEANUP_FREE resident = NULL;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint64_t cached = 0;
	struct stat status;
	size_t pages;
	void *map;

	ck_assert_msg(fd >= 0 && fstat(fd, &status) == 0, "%s: %s", path, strerror(errno));
	pages = ((size_t)status.st_size + page - 1) / page;
	resident = malloc(pages);
	ck_assert_ptr_nonnull(resident);
	map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	ck_assert_int_eq(mincore(map, (size_t)status.st_size, resident), 0);
	munmap(map, (size_t)status.st_size);
	for (size_t i = 0; i < pages; i++)
		cached += resident[i] & 1 ? page : 0;
	return cached;
}
