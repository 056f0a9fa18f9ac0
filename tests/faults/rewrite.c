/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For LD_PRELOAD: what the kernel answers to a server goes wrong now and then, as it may on real machines: transfers are short,
 * fail, or take long; the rings are those of an older kernel; a thread stands still.  tests/faults/run says what and how often, in
 * the file FAULTS_SHARED, and reads there how often it happened.
 *
 * Requests on a ring are rewritten before they are submitted: one that is to fail becomes one that does nothing, whose
 * completion gets the error.  Only what the kernel's interface allows is done, so whatever goes wrong then is the server's fault.
 */
#include "tests/faults/shared.h"

#include <dlfcn.h>
#include <errno.h>
#include <liburing.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static bool
now(enum what what, unsigned int seldom)
{
	return shared && atomic_load(&shared->armed) && shared->what & what && draw() % (shared->rate * seldom) == 0;
}

static void
count(enum count which)
{
	atomic_fetch_add(&shared->counts[which], 1);
}

static int
one_of(const int *errors, size_t number)
{
	return errors[draw() % number];
}

#define ONE_OF(...) one_of((const int[]){__VA_ARGS__}, sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

/* A thread stands still: others may go on meanwhile. */
static void
stall(void)
{
	if (!now(STALL, 20))
		return;
	count(STALLS);
	usleep(300000 + (unsigned int)(draw() % 900000));
}

static void
delay(void)
{
	if (draw() % 3 == 0)
		usleep((unsigned int)(draw() % (draw() % 4 ? 60000 : 900000)));
}

#define NEXT(name) ((__typeof__(name) *)dlsym(RTLD_NEXT, #name))

/* ---- Rings */

/* Requests that do nothing: what their completions are to say. */
struct broken {
	struct io_uring *ring; /* NULL: free */
	uint64_t user_data;
	int result;
	struct __kernel_timespec later;
};

static struct broken broken[256];
static pthread_mutex_t broken_lock = PTHREAD_MUTEX_INITIALIZER;

/* It is told at once, or later. */
static void
sqe_break(struct io_uring *ring, struct io_uring_sqe *sqe, int result, enum count which)
{
	pthread_mutex_lock(&broken_lock);
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		struct broken *b = &broken[i];

		if (b->ring)
			continue;
		*b = (struct broken){.ring = ring, .user_data = sqe->user_data, .result = result};
		memset(sqe, 0, sizeof(*sqe));
		sqe->opcode = IORING_OP_NOP;
		if (draw() % 3 == 0) {
			b->later.tv_nsec = (long)(draw() % (draw() % 4 ? 60000000 : 900000000));
			sqe->opcode = IORING_OP_TIMEOUT;
			sqe->addr = (uintptr_t)&b->later;
			sqe->len = 1;
		}
		sqe->user_data = b->user_data;
		count(which);
		break;
	}
	pthread_mutex_unlock(&broken_lock);
}

static void
transfer_rewrite(struct io_uring *ring, struct io_uring_sqe *sqe, bool write)
{
	switch (draw() % 4) {
	case 0:
		/* Whole blocks, as a direct transfer would end. */
		if (sqe->len > 4096) {
			sqe->len = 4096 * (1 + (uint32_t)(draw() % (sqe->len / 4096)));
			count(SHORT);
		}
		return;
	case 1:
		if (write)
			sqe_break(ring, sqe, 0, NOTHING);
		return;
	default:
		sqe_break(ring, sqe, write ? -ONE_OF(EIO, ENOSPC, EAGAIN, EINTR) : -ONE_OF(EIO, EAGAIN, EINTR), ERRORS);
	}
}

static void
sqe_rewrite(struct io_uring *ring, struct io_uring_sqe *sqe)
{
	switch (sqe->opcode) {
	case IORING_OP_READ:
	case IORING_OP_READ_FIXED:
		if (now(REWRITE, 1))
			transfer_rewrite(ring, sqe, false);
		return;
	case IORING_OP_WRITE:
	case IORING_OP_WRITE_FIXED:
		if (now(REWRITE, 1))
			transfer_rewrite(ring, sqe, true);
		return;
	case IORING_OP_READV:
	case IORING_OP_WRITEV:
	case IORING_OP_FALLOCATE:
		if (now(REWRITE, 1))
			sqe_break(ring, sqe, -ONE_OF(EIO, ENOSPC, EINTR), ERRORS);
		return;
	case IORING_OP_FSYNC:
		if (now(SYNC, 1))
			sqe_break(ring, sqe, -EIO, SYNC_ERRORS);
		return;
	case IORING_OP_RECV:
		if (now(SOCKETS, 20))
			sqe_break(ring, sqe, -ONE_OF(EINTR, ENOMEM, ENOBUFS), RECEIVE);
		return;
	case IORING_OP_SENDMSG:
		if (now(SOCKETS, 20))
			sqe_break(ring, sqe, -ONE_OF(EINTR, ENOMEM, ENOBUFS), SEND);
		return;
	default:
		return;
	}
}

/* What of the queue was looked at: the kernel may take it in several calls. */
static struct {
	struct io_uring *ring;
	unsigned int tail;
} seen[64];

static void
queue_rewrite(struct io_uring *ring)
{
	size_t i = 0;

	pthread_mutex_lock(&broken_lock);
	while (i < 63 && seen[i].ring && seen[i].ring != ring)
		i++;
	if (!seen[i].ring)
		seen[i].tail = ring->sq.sqe_head;
	seen[i].ring = ring;
	pthread_mutex_unlock(&broken_lock);
	if ((int)(seen[i].tail - ring->sq.sqe_head) < 0)
		seen[i].tail = ring->sq.sqe_head;
	for (; seen[i].tail != ring->sq.sqe_tail; seen[i].tail++)
		sqe_rewrite(ring, &ring->sq.sqes[seen[i].tail & ring->sq.ring_mask]);
}

static void
completions_rewrite(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	unsigned int head;

	pthread_mutex_lock(&broken_lock);
	io_uring_for_each_cqe(ring, head, cqe) {
		for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
			if (broken[i].ring != ring || broken[i].user_data != cqe->user_data)
				continue;
			/* One that was cancelled keeps its own result. */
			if (cqe->res == 0 || cqe->res == -ETIME)
				cqe->res = broken[i].result;
			broken[i].ring = NULL;
			break;
		}
	}
	pthread_mutex_unlock(&broken_lock);
}

#define AROUND(ring, call)                      \
	do {                                    \
		int result_;                    \
                                                \
		stall();                        \
		queue_rewrite(ring);            \
		result_ = (call);               \
		completions_rewrite(ring);      \
		stall();                        \
		return result_;                 \
	} while (0)

static bool
submit_fails(int *error)
{
	if (!now(REWRITE, 20))
		return false;
	count(SUBMIT);
	*error = -ONE_OF(EAGAIN, EBUSY, EINTR);
	return true;
}

int
io_uring_submit(struct io_uring *ring)
{
	int error;

	if (submit_fails(&error))
		return error;
	AROUND(ring, NEXT(io_uring_submit)(ring));
}

int
io_uring_submit_and_wait(struct io_uring *ring, unsigned int n)
{
	int error;

	if (submit_fails(&error))
		return error;
	AROUND(ring, NEXT(io_uring_submit_and_wait)(ring, n));
}

int
io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe, unsigned int n,
				 struct __kernel_timespec *time, sigset_t *mask)
{
	AROUND(ring, NEXT(io_uring_submit_and_wait_timeout)(ring, cqe, n, time, mask));
}

int
io_uring_submit_and_get_events(struct io_uring *ring)
{
	AROUND(ring, NEXT(io_uring_submit_and_get_events)(ring));
}

int
io_uring_get_events(struct io_uring *ring)
{
	AROUND(ring, NEXT(io_uring_get_events)(ring));
}

/* ---- Older kernels */

static bool
denied(uint32_t which)
{
	if (!(shared->what & OLD_RING) || !(shared->ring_denies & which))
		return false;
	count(DENIED);
	return true;
}

int
io_uring_queue_init_params(unsigned int entries, struct io_uring *ring, struct io_uring_params *params)
{
	int r;

	if (denied(DENY_RINGS))
		return -ENOMEM;
	if (shared->what & OLD_RING && params->flags & shared->ring_flags) {
		count(DENIED);
		return -EINVAL;
	}
	r = NEXT(io_uring_queue_init_params)(entries, ring, params);
	if (r == 0 && ring->features & IORING_FEAT_EXT_ARG && denied(DENY_EXT_ARG))
		ring->features &= ~IORING_FEAT_EXT_ARG;
	return r;
}

void
io_uring_queue_exit(struct io_uring *ring)
{
	pthread_mutex_lock(&broken_lock);
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++)
		if (broken[i].ring == ring)
			broken[i].ring = NULL;
	for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++)
		if (seen[i].ring == ring)
			seen[i].tail = ring->sq.sqe_head - (1U << 30); /* the next ring here starts anew */
	pthread_mutex_unlock(&broken_lock);
	NEXT(io_uring_queue_exit)(ring);
}

int
io_uring_register_files(struct io_uring *ring, const int *files, unsigned int number)
{
	return denied(DENY_FILES) ? -EINVAL : NEXT(io_uring_register_files)(ring, files, number);
}

int
io_uring_register_buffers(struct io_uring *ring, const struct iovec *buffers, unsigned int number)
{
	return denied(DENY_BUFFERS) ? -ENOMEM : NEXT(io_uring_register_buffers)(ring, buffers, number);
}

/* ---- Calls of the C library */

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

/* How much of a transfer is done; -1: none, errno is set. */
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

ssize_t
pwritev2(int fd, const struct iovec *vector, int number, off_t offset, int flags)
{
	if (call_fails(REWRITE, 1, ERRORS, ONE_OF(EIO, ENOSPC, EINTR)))
		return -1;
	return NEXT(pwritev2)(fd, vector, number, offset, flags);
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
	if (call_fails(REWRITE, 20, SUBMIT, EINTR))
		return -1;
	n = NEXT(epoll_wait)(fd, events, number, timeout);
	if (n > 0)
		stall();
	return n;
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

		if ((iocb->aio_lio_opcode == IOCB_CMD_PREAD || iocb->aio_lio_opcode == IOCB_CMD_PWRITE) &&
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
		/* What was done may be told as failed: the server can't know how much was. */
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
		return aio_events((unsigned long)a[0], a[1], a[2], (struct io_event *)a[3], (void *)a[4]);
	return NEXT(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
