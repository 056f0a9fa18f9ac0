/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls of the C library that fail now and then, or do only a part of their work; built into one
 * library with rewrite.c.
 */
#include "tests/faults/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static void
delay(void)
{
	if (draw() % 3 == 0)
		usleep((unsigned int)(draw() % (draw() % 4 ? 60000 : 900000)));
}

static bool
call_fails(enum what what, unsigned int seldom, enum count which, int error)
{
	if (!now(what, seldom))
		return false;
	count(which);
	delay();
	errno = error;
	return true;
}

/* How many bytes of a transfer are done; -1: none, and errno is set. */
static ssize_t
part(size_t length, bool write)
{
	if (!now(REWRITE, 1))
		return (ssize_t)length;
	switch (draw() % 4) {
	case 0:
		if (length <= 4096)
			break;
		count(SHORT);
		return 4096 * (ssize_t)(1 + draw() % (length / 4096));
	case 1:
		if (!write)
			break;
		count(NOTHING);
		return 0;
	default:
		count(ERRORS);
		delay();
		errno = write ? ONE_OF(EIO, ENOSPC, EINTR) : ONE_OF(EIO, EINTR);
		return -1;
	}
	return (ssize_t)length;
}

ssize_t
pread64(int fd, void *buffer, size_t length, off64_t offset)
{
	ssize_t n = part(length, false);
	return n < 0 ? n : syscall(SYS_pread64, fd, buffer, (size_t)n, offset);
}

ssize_t
pread(int fd, void *buffer, size_t length, off_t offset)
{
	return pread64(fd, buffer, length, offset);
}

ssize_t
pwrite64(int fd, const void *buffer, size_t length, off64_t offset)
{
	ssize_t n = part(length, true);
	return n <= 0 ? n : syscall(SYS_pwrite64, fd, buffer, (size_t)n, offset);
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
	ssize_t n = part(vector->iov_len, false);
	struct iovec begin = {vector->iov_base, (size_t)n};
	return n < 0 ? n : NEXT(preadv2)(fd, &begin, number, offset, flags);
}

ssize_t
pwritev2(int fd, const struct iovec *vector, int number, off_t offset, int flags)
{
	ssize_t n = part(vector->iov_len, true);
	struct iovec begin = {vector->iov_base, (size_t)n};
	return n <= 0 ? n : NEXT(pwritev2)(fd, &begin, number, offset, flags);
}

int
fdatasync(int fd)
{
	if (call_fails(SYNC, 1, SYNC_ERRORS, EIO))
		return -1;
	return NEXT(fdatasync)(fd);
}

int
fallocate(int fd, int mode, off_t offset, off_t length)
{
	if (call_fails(REWRITE, 1, ERRORS, ONE_OF(EIO, ENOSPC, EINTR)))
		return -1;
	return NEXT(fallocate)(fd, mode, offset, length);
}

ssize_t
recv(int fd, void *buffer, size_t length, int flags)
{
	if (flags & MSG_PEEK)
		return NEXT(recv)(fd, buffer, length, flags);
	stall();
	if (call_fails(SOCKETS, 20, RECEIVE, ONE_OF(EINTR, ENOMEM, ENOBUFS)))
		return -1;
	if (length > 1 && now(SOCKETS, 4)) {
		count(SHORT);
		length = 1 + draw() % (length - 1);
	}
	return NEXT(recv)(fd, buffer, length, flags);
}

ssize_t
sendmsg(int fd, const struct msghdr *message, int flags)
{
	if (call_fails(SOCKETS, 20, SEND, ONE_OF(EINTR, ENOMEM, ENOBUFS)))
		return -1;
	return NEXT(sendmsg)(fd, message, flags);
}

int
epoll_wait(int fd, struct epoll_event *events, int number, int timeout)
{
	int n;

	stall();
	if (call_fails(REWRITE, 20, SUBMIT, EINTR) || call_fails(EVENTS, 20, NO_EVENTS, ENOMEM))
		return -1;
	n = NEXT(epoll_wait)(fd, events, number, timeout);
	if (n > 0)
		stall();
	return n;
}

int
epoll_ctl(int fd, int what, int which, struct epoll_event *event)
{
	if (what != EPOLL_CTL_DEL && now(EVENTS, 1)) {
		count(NO_EVENTS);
		errno = ONE_OF(ENOMEM, ENOSPC);
		return -1;
	}
	return NEXT(epoll_ctl)(fd, what, which, event);
}

/* The connection continues to wait. */
int
accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
	uint32_t error = shared ? atomic_load(&shared->accept_error) : 0;

	if (error == 0 || !is_ours(__builtin_return_address(0)))
		return NEXT(accept4)(fd, address, length, flags);
	count(ACCEPTS);
	errno = (int)error;
	return -1;
}

/* The witness calls this way. A call that the server makes for its own data succeeds, because
 * the kernel has already reported the error elsewhere. */
int
sync_file_range(int fd, off64_t offset, off64_t length, unsigned int flags)
{
	uint32_t lost = 1;

	if (shared && atomic_compare_exchange_strong(&shared->lost, &lost, 2)) {
		count(LIES);
		errno = EIO;
		return -1;
	}
	return NEXT(sync_file_range)(fd, offset, length, flags);
}

static long
aio_submit(unsigned long context, long number, struct iocb **list)
{
	if (number > 0 && call_fails(REWRITE, 10, SUBMIT, ONE_OF(EAGAIN, EINTR)))
		return -1;
	if (number > 1 && now(REWRITE, 10)) {
		count(SUBMIT);
		number = 1 + (long)(draw() % (uint64_t)(number - 1));
	}
	for (long i = 0; i < number; i++) {
		struct iocb *iocb = list[i];

		if ((iocb->aio_lio_opcode == IOCB_CMD_PREAD ||
		     iocb->aio_lio_opcode == IOCB_CMD_PWRITE) &&
		    iocb->aio_nbytes > 4096 && now(REWRITE, 2)) {
			count(SHORT);
			iocb->aio_nbytes = 4096 * (1 + draw() % (iocb->aio_nbytes / 4096));
		}
	}
	return NEXT(syscall)(SYS_io_submit, context, number, list);
}

static long
aio_events(unsigned long context, long min, long number, struct io_event *events, void *time)
{
	long n = NEXT(syscall)(SYS_io_getevents, context, min, number, events, time);

	for (long i = 0; i < n; i++)
		/* A transfer that was done may be reported as failed: the server can't know how
		 * much was done. */
		if (events[i].res > 0 && now(REWRITE, 2)) {
			events[i].res = -ONE_OF(EIO, EAGAIN, EINTR);
			count(ERRORS);
		} else if (events[i].res == 0 && now(SYNC, 1)) {
			events[i].res = -EIO;
			count(SYNC_ERRORS);
		}
	return n;
}

long
syscall(long number, ...)
{
	va_list list;
	long a[6];

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_io_submit)
		return aio_submit((unsigned long)a[0], a[1], (struct iocb **)a[2]);
	if (number == SYS_io_getevents)
		return aio_events((unsigned long)a[0], a[1], a[2], (struct io_event *)a[3],
				  (void *)a[4]);
	return NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
