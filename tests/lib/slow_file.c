/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For LD_PRELOAD: a slow file system.  While the file SLOW_GATE exists, each call for a file whose
 * name ends with "slow.img" waits, unless it has RWF_NOWAIT; it first writes its name to the file
 * SLOW_GATE.reached.  With SLOW_TRANSFERS=no, reads, writes and syncs don't wait.  Each write to
 * that file takes SLOW_WRITE microseconds longer.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int
is_slow(int fd)
{
	static const char end[] = "slow.img";
	char link[64], path[4096];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path));
	return n >= (ssize_t)sizeof(end) &&
	       memcmp(path + n - (sizeof(end) - 1), end, sizeof(end) - 1) == 0;
}

static void
pass(int fd, const char *call)
{
	const char *gate = getenv("SLOW_GATE");
	char reached[4096];
	int file;

	if (!gate || access(gate, F_OK) != 0 || !is_slow(fd))
		return;
	snprintf(reached, sizeof(reached), "%s.reached", gate);
	file = open(reached, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (write(file, call, strlen(call)) < 0)
		abort();
	close(file);
	while (access(gate, F_OK) == 0)
		usleep(2000);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* The real call can be made. */
#define PASSED (-2)

/* With RWF_NOWAIT, this file system can't tell whether a call would wait; ext4 can't either, for
 * data in the page cache. */
static long
aio_submit(long context, long count, struct iocb **list)
{
	for (long i = 0; i < count; i++) {
		const struct iocb *iocb = list[i];

		if (iocb->aio_lio_opcode != IOCB_CMD_PREAD &&
		    iocb->aio_lio_opcode != IOCB_CMD_PWRITE)
			continue;
		if (!is_slow((int)iocb->aio_fildes))
			continue;
		if (!(iocb->aio_rw_flags & RWF_NOWAIT)) {
			pass((int)iocb->aio_fildes, "io_submit");
			continue;
		}
		if (i > 0)
			return REAL(syscall)(SYS_io_submit, context, i, list);
		errno = EOPNOTSUPP;
		return -1;
	}
	return PASSED;
}

long
syscall(long number, ...)
{
	long a[6], r;
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_io_submit) {
		r = aio_submit(a[0], a[1], (struct iocb **)a[2]);
		if (r != PASSED)
			return r;
	}
	return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void
delay_write(int fd)
{
	const char *delay = getenv("SLOW_WRITE");

	if (delay && is_slow(fd))
		usleep((useconds_t)atoi(delay));
}

static void
pass_transfer(int fd, const char *call)
{
	const char *slow = getenv("SLOW_TRANSFERS");

	if (!slow || strcmp(slow, "no") != 0)
		pass(fd, call);
}

off_t
lseek(int fd, off_t offset, int whence)
{
	pass(fd, "lseek");
	return REAL(lseek)(fd, offset, whence);
}

off64_t
lseek64(int fd, off64_t offset, int whence)
{
	pass(fd, "lseek");
	return REAL(lseek64)(fd, offset, whence);
}

int
fstat(int fd, struct stat *facts)
{
	pass(fd, "fstat");
	return REAL(fstat)(fd, facts);
}

int
fstat64(int fd, struct stat64 *facts)
{
	pass(fd, "fstat");
	return REAL(fstat64)(fd, facts);
}

int
fallocate(int fd, int mode, off_t offset, off_t length)
{
	pass(fd, "fallocate");
	return REAL(fallocate)(fd, mode, offset, length);
}

int
fallocate64(int fd, int mode, off64_t offset, off64_t length)
{
	pass(fd, "fallocate");
	return REAL(fallocate64)(fd, mode, offset, length);
}

int
posix_fadvise(int fd, off_t offset, off_t length, int advice)
{
	pass(fd, "posix_fadvise");
	return REAL(posix_fadvise)(fd, offset, length, advice);
}

int
posix_fadvise64(int fd, off64_t offset, off64_t length, int advice)
{
	pass(fd, "posix_fadvise");
	return REAL(posix_fadvise64)(fd, offset, length, advice);
}

ssize_t
pread(int fd, void *buffer, size_t count, off_t offset)
{
	pass_transfer(fd, "pread");
	return REAL(pread)(fd, buffer, count, offset);
}

ssize_t
pread64(int fd, void *buffer, size_t count, off64_t offset)
{
	pass_transfer(fd, "pread");
	return REAL(pread64)(fd, buffer, count, offset);
}

ssize_t
pwrite(int fd, const void *buffer, size_t count, off_t offset)
{
	pass_transfer(fd, "pwrite");
	delay_write(fd);
	return REAL(pwrite)(fd, buffer, count, offset);
}

ssize_t
pwrite64(int fd, const void *buffer, size_t count, off64_t offset)
{
	pass_transfer(fd, "pwrite");
	delay_write(fd);
	return REAL(pwrite64)(fd, buffer, count, offset);
}

int
fdatasync(int fd)
{
	pass_transfer(fd, "fdatasync");
	return REAL(fdatasync)(fd);
}
