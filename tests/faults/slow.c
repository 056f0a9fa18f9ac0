/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For LD_PRELOAD: a slow file system. Calls for one file wait while the gate is closed. If a pace
 * is given, writes to that file past SLOW_FROM take as long as on a disk of that pace, their data
 * is dropped, and nothing is allocated there.
 */
#include "tests/faults/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Microseconds between two looks at the gate. */
#define LOOK 1000

/* Not with fstat(), which waits itself here. */
static bool
is_slow(int fd)
{
	struct statx facts;

	return shared && shared->inode && statx(fd, "", AT_EMPTY_PATH, STATX_INO, &facts) == 0 &&
	       facts.stx_ino == shared->inode;
}

static void
pass(int fd)
{
	if (!shared || !atomic_load(&shared->gate) || !is_slow(fd))
		return;
	count(WAITS);
	while (atomic_load(&shared->gate))
		usleep(LOOK);
}

/* When the disk will have finished all its work; CLOCK_MONOTONIC, ns. */
static int64_t done_at;
static pthread_mutex_t disk = PTHREAD_MUTEX_INITIALIZER;

static void
take_time(size_t length)
{
	int64_t cost = (int64_t)length * 1000000000 / ((int64_t)atomic_load(&shared->pace) << 20),
		at;
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	pthread_mutex_lock(&disk);
	at = (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
	done_at = at = (done_at > at ? done_at : at) + cost;
	pthread_mutex_unlock(&disk);
	time = (struct timespec){at / 1000000000, at % 1000000000};
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static bool
is_paced(int fd, off64_t offset)
{
	return shared && atomic_load(&shared->pace) && offset >= SLOW_FROM && is_slow(fd);
}

off64_t
lseek64(int fd, off64_t offset, int whence)
{
	pass(fd);
	return NEXT(lseek64)(fd, offset, whence);
}

off_t
lseek(int fd, off_t offset, int whence)
{
	return lseek64(fd, offset, whence);
}

int
fstat64(int fd, struct stat64 *facts)
{
	pass(fd);
	return NEXT(fstat64)(fd, facts);
}

int
fstat(int fd, struct stat *facts)
{
	pass(fd);
	return NEXT(fstat)(fd, facts);
}

int
fallocate64(int fd, int mode, off64_t offset, off64_t length)
{
	pass(fd);
	if (is_paced(fd, offset)) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return NEXT(fallocate64)(fd, mode, offset, length);
}

int
fallocate(int fd, int mode, off_t offset, off_t length)
{
	return fallocate64(fd, mode, offset, length);
}

int
posix_fadvise64(int fd, off64_t offset, off64_t length, int advice)
{
	pass(fd);
	return NEXT(posix_fadvise64)(fd, offset, length, advice);
}

int
posix_fadvise(int fd, off_t offset, off_t length, int advice)
{
	return posix_fadvise64(fd, offset, length, advice);
}

int
fdatasync(int fd)
{
	pass(fd);
	return NEXT(fdatasync)(fd);
}

ssize_t
pread64(int fd, void *buffer, size_t length, off64_t offset)
{
	pass(fd);
	return NEXT(pread64)(fd, buffer, length, offset);
}

ssize_t
pread(int fd, void *buffer, size_t length, off_t offset)
{
	return pread64(fd, buffer, length, offset);
}

ssize_t
pwrite64(int fd, const void *buffer, size_t length, off64_t offset)
{
	pass(fd);
	if (is_paced(fd, offset)) {
		count(PACED);
		take_time(length);
		return (ssize_t)length;
	}
	return NEXT(pwrite64)(fd, buffer, length, offset);
}

ssize_t
pwrite(int fd, const void *buffer, size_t length, off_t offset)
{
	return pwrite64(fd, buffer, length, offset);
}

/* The engine's have one part each. */
ssize_t
preadv2(int fd, const struct iovec *vector, int number, off_t offset, int flags)
{
	pass(fd);
	return NEXT(preadv2)(fd, vector, number, offset, flags);
}

ssize_t
pwritev2(int fd, const struct iovec *vector, int number, off_t offset, int flags)
{
	pass(fd);
	if (is_paced(fd, offset)) {
		count(PACED);
		take_time(vector->iov_len);
		return (ssize_t)vector->iov_len;
	}
	return NEXT(pwritev2)(fd, vector, number, offset, flags);
}
