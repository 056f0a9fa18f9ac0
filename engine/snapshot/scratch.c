/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/snapshot/scratch.h"

#include "common/cleanup.h"
#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* An offset in bytes at which the page cache never has a page: see engine/io/shared_file.c. */
#define NO_PAGE (sizeof(long) > 4 ? INT64_MAX - 0xffff : ((int64_t)1 << 44) - 0x10000)

/* The directory of an open file: its path may lead through links, such as /proc/self/fd. NULL: it
 * is not known. The caller frees it. */
static char *
scratch_directory_of(int fd)
{
	char link[64], path[PATH_MAX], *slash;
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	if (length <= 0)
		return NULL;
	path[length] = '\0';
	slash = strrchr(path, '/');
	if (!slash)
		return NULL;
	slash[slash == path] = '\0';
	return strdup(path);
}

char *
scratch_directory(const char *wanted, int fd, bool block_device)
{
	char *beside = NULL;

	if (wanted)
		return strdup(wanted);
	if (!block_device)
		beside = scratch_directory_of(fd);
	return beside ? beside : strdup("/var/tmp");
}

/* For file systems without O_TMPFILE, such as NFS. A process that is killed between the two calls
 * leaves an empty file. */
static int
scratch_open_and_unlink(const char *directory)
{
	char *CLEANUP_FREE path = NULL;
	int fd;

	if (asprintf(&path, "%s/.nbdloop-XXXXXX", directory) < 0) {
		path = NULL;
		return -ENOMEM;
	}
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(path);
	return fd;
}

int
scratch_open(const char *directory, char **error)
{
	int fd = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);

	if (fd >= 0)
		return fd;
	fd = -errno;
	if (fd == -EOPNOTSUPP || fd == -EISDIR)
		fd = scratch_open_and_unlink(directory);
	if (fd >= 0)
		return fd;
	return error_set(error, fd,
			 "no file can be made in %s: %s; scratch=DIR names another "
			 "directory",
			 directory, strerror(-fd));
}

int
scratch_init(struct scratch *scratch, const char *directory, uint64_t size, uint64_t most,
	     char **error)
{
	int r;

	*scratch = (struct scratch){.fd = -1, .most = most, .asking = PTHREAD_MUTEX_INITIALIZER};
	scratch->directory = strdup(directory);
	if (!scratch->directory)
		return -ENOMEM;
	r = scratch->fd = scratch_open(directory, error);
	if (r >= 0 && ftruncate(scratch->fd, (off_t)size) < 0)
		r = error_set(error, -errno,
			      "a file in %s can't have the %llu bytes of the image: %s; "
			      "scratch=DIR names another directory",
			      directory, (unsigned long long)size, strerror(errno));
	if (r >= 0)
		return 0;
	scratch_fini(scratch);
	return r;
}

void
scratch_fini(struct scratch *scratch)
{
	if (scratch->fd >= 0)
		close(scratch->fd);
	scratch->fd = -1;
	free(steal_pointer(&scratch->directory));
}

int
scratch_write(struct scratch *scratch, const void *data, size_t length, uint64_t offset)
{
	const char *from = data;
	uint64_t before = atomic_fetch_add(&scratch->written, length);

	if (scratch->most && before + length > scratch->most)
		return -EDQUOT;
	while (length > 0) {
		ssize_t n = pwrite(scratch->fd, from, length, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -ENOSPC;
		from += n;
		offset += (size_t)n;
		length -= (size_t)n;
	}
	return 0;
}

/* Asks the kernel whether a write-back of the file has failed, without waiting for one: the range
 * has no pages. The kernel tells it once, so that one caller must not overtake another one. A
 * sandbox may forbid the call, which means nothing. */
static int
scratch_find_loss(struct scratch *scratch)
{
	int lost;

	pthread_mutex_lock(&scratch->asking);
	if (sync_file_range(scratch->fd, NO_PAGE, 1, SYNC_FILE_RANGE_WAIT_BEFORE) < 0 &&
	    errno != ENOSYS && errno != EPERM)
		scratch->lost = -errno;
	lost = scratch->lost;
	pthread_mutex_unlock(&scratch->asking);
	return lost;
}

int
scratch_read(struct scratch *scratch, void *data, size_t length, uint64_t offset)
{
	char *to = data;

	while (length > 0) {
		ssize_t n = pread(scratch->fd, to, length, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		to += n;
		offset += (size_t)n;
		length -= (size_t)n;
	}
	return scratch_find_loss(scratch);
}

void
scratch_empty(const struct scratch *scratch)
{
	/* If it fails, the space is freed when the file is closed. */
	if (ftruncate(scratch->fd, 0) < 0)
		return;
}
