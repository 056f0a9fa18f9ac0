/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static void
scratch_template(char path[SCRATCH_PATH])
{
	const char *directory = getenv("TMPDIR");

	snprintf(path, SCRATCH_PATH, "%s/nbdloop-unit-XXXXXX",
		 directory && *directory ? directory : ".");
}

int
scratch_try_file(uint64_t size)
{
	char path[SCRATCH_PATH];
	int fd;

	scratch_template(path);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0 && (unlink(path) < 0 || ftruncate(fd, (off_t)size) < 0)) {
		close(fd);
		return -1;
	}
	return fd;
}

int
scratch_file(uint64_t size)
{
	int fd = scratch_try_file(size);

	ck_assert_msg(fd >= 0, "no file can be made in $TMPDIR or here: %s", strerror(errno));
	return fd;
}

int
scratch_memory_file(uint64_t size)
{
	int fd = memfd_create("nbdloop-unit", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
	return fd;
}

const char *
scratch_path(int fd, char path[SCRATCH_PATH])
{
	snprintf(path, SCRATCH_PATH, "/proc/self/fd/%d", fd);
	return path;
}

void
scratch_directory_new(char path[SCRATCH_PATH])
{
	scratch_template(path);
	if (!mkdtemp(path)) {
		perror(path);
		exit(EXIT_FAILURE);
	}
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

void
scratch_directory_remove(const char *path)
{
	if (nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS) != 0)
		perror(path);
}

const char *
scratch_no_direct_io(void)
{
	char path[SCRATCH_PATH];
	const char *reason = NULL;
	struct statx stx = {0};
	int file = scratch_try_file(65536);
	int fd = file < 0 ? -1 : open(scratch_path(file, path), O_RDWR | O_DIRECT | O_CLOEXEC);

	if (file >= 0)
		close(file);
	if (fd < 0)
		return "the file system of $TMPDIR, or of the current directory, has no direct I/O";
	if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) == 0 &&
	    stx.stx_mask & STATX_DIOALIGN && stx.stx_dio_offset_align == 0)
		reason = "statx says no direct I/O (qemu-user leaves its answer out)";
	close(fd);
	return reason;
}

const char *
scratch_no_dsync(void)
{
	struct iovec iov = {.iov_base = (char[]){0}, .iov_len = 1};
	const char *reason = NULL;
	int fd = scratch_try_file(4096);

	if (fd >= 0 && pwritev2(fd, &iov, 1, 0, RWF_DSYNC) < 0 && errno == EOPNOTSUPP)
		reason = "no RWF_DSYNC here (qemu-user has no pwritev2)";
	if (fd >= 0)
		close(fd);
	return reason;
}

int
scratch_cached_pages(int fd)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char pages[4096];
	size_t size = (size_t)lseek(fd, 0, SEEK_END), count = (size + page - 1) / page;
	void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
	int cached = 0, r;

	if (map == MAP_FAILED || count > sizeof(pages))
		return -1;
	r = mincore(map, size, pages);
	for (size_t i = 0; i < count; i++)
		cached += pages[i] & 1;
	munmap(map, size);
	return r < 0 ? -1 : cached;
}

int
scratch_drop_cache(int fd)
{
	fdatasync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	return scratch_cached_pages(fd);
}

void
scratch_await_no_cache(int fd)
{
	for (int i = 0; scratch_cached_pages(fd) != 0; i++) {
		ck_assert_msg(i < 500, "%d pages stay in the page cache", scratch_cached_pages(fd));
		usleep(20000);
	}
}

const char *
scratch_no_view_of_cache(void)
{
	static const char bytes[4096] = {1};
	const char *reason = NULL;
	int fd = scratch_try_file(1 << 20);

	if (fd < 0 || pwrite(fd, bytes, sizeof(bytes), 0) != sizeof(bytes) ||
	    scratch_cached_pages(fd) < 1 || scratch_drop_cache(fd) != 0)
		reason =
			"the file system of $TMPDIR, or of the current directory, has no page cache to look at";
	if (fd >= 0)
		close(fd);
	return reason;
}

void
scratch_fill(int fd, uint64_t offset, uint64_t length)
{
	for (uint64_t done = 0; done < length;) {
		unsigned char bytes[4096];
		size_t n = length - done < sizeof(bytes) ? (size_t)(length - done) : sizeof(bytes);

		for (size_t i = 0; i < n; i++)
			bytes[i] = (unsigned char)((offset + done + i) * 31 +
						   (offset + done + i) / 4096 + 1);
		ck_assert_int_eq(pwrite(fd, bytes, n, (off_t)(offset + done)), (ssize_t)n);
		done += n;
	}
}
