/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For LD_PRELOAD: nbdloopd as if a client had taken an event loop over. When the file
 * BREAK_OUT_WHEN is there, the next receive, send or submission of a thread makes the attempt
 * BREAK_OUT, once, and says how it went on standard error ("break-out: WHAT: done", or the error):
 *
 *	execve      becomes touch(1), which makes BREAK_OUT_FILE
 *	open        opens BREAK_OUT_FILE
 *	ring        has the loop's ring, or without one a ring of its own, open BREAK_OUT_FILE
 *	new-ring    makes a ring of its own and has it open BREAK_OUT_FILE
 *	register    makes a registration with a ring that the server never makes
 *	setuid, connect, mprotect, fork: calls that a thread of this kind never makes
 *	newer       makes a call that no kernel has yet
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of a completion that nobody waits for (engine/backend/ring.c): nothing is released. */
#define NOBODYS 1

static void
tell(const char *what, int error)
{
	dprintf(2, "break-out: %s: %s\n", what, error ? strerror(error) : "done");
}

static int
open_on(struct io_uring *ring, const char *path)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	struct io_uring_cqe *cqe;
	unsigned int head;

	io_uring_prep_openat(sqe, AT_FDCWD, path, O_RDONLY, 0);
	sqe->user_data = NOBODYS;
	for (int tries = 0; tries < 1000; tries++) {
		int r = io_uring_submit_and_get_events(ring);

		if (r < 0 && r != -EINTR && r != -EAGAIN)
			return -r;
		io_uring_for_each_cqe(ring, head, cqe)
		{
			if (cqe->user_data == NOBODYS)
				return cqe->res < 0 ? -cqe->res : 0;
		}
		usleep(1000);
	}
	return ETIME;
}

static int
open_on_own(const char *path)
{
	struct io_uring ring;
	int r = -io_uring_queue_init(4, &ring, 0);

	if (r != 0)
		return r;
	r = open_on(&ring, path);
	io_uring_queue_exit(&ring);
	return r;
}

static int
connect_tcp(void)
{
	const struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(9)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0)
		return errno;
	/* Nobody listens there; who gets this far may connect. */
	return connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 &&
			       errno != ECONNREFUSED
		       ? errno
		       : 0;
}

static int
attempt(const char *what, const char *file, struct io_uring *ring)
{
	char *const touch[] = {"touch", (char *)file, NULL};
	void *page;

	if (strcmp(what, "execve") == 0)
		return execv("/usr/bin/touch", touch) < 0 ? errno : 0;
	if (strcmp(what, "open") == 0)
		return open(file, O_RDONLY) < 0 ? errno : 0;
	if (strcmp(what, "ring") == 0)
		return ring ? open_on(ring, file) : open_on_own(file);
	if (strcmp(what, "new-ring") == 0)
		return open_on_own(file);
	if (strcmp(what, "register") == 0)
		return syscall(SYS_io_uring_register, ring ? ring->ring_fd : -1,
			       IORING_REGISTER_PERSONALITY, NULL, 0) < 0
			       ? errno
			       : 0;
	if (strcmp(what, "connect") == 0)
		return connect_tcp();
	if (strcmp(what, "setuid") == 0)
		return syscall(SYS_setuid, 0) < 0 ? errno : 0;
	if (strcmp(what, "newer") == 0)
		return syscall(4095) < 0 ? errno : 0;
	if (strcmp(what, "fork") == 0)
		return fork() < 0 ? errno : 0;
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return mprotect(page, 4096, PROT_READ | PROT_EXEC) < 0 ? errno : 0;
}

static void
break_out(struct io_uring *ring)
{
	static _Atomic int begun;
	const char *what = getenv("BREAK_OUT"), *when = getenv("BREAK_OUT_WHEN"),
		   *file = getenv("BREAK_OUT_FILE");

	if (!what || !when || access(when, F_OK) < 0 || atomic_exchange(&begun, 1))
		return;
	dprintf(2, "break-out: %s begins\n", what);
	tell(what, attempt(what, file, ring));
}

ssize_t
recv(int fd, void *buffer, size_t length, int flags)
{
	break_out(NULL);
	return recvfrom(fd, buffer, length, flags, NULL, NULL);
}

int
io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe,
				 unsigned int wait, struct __kernel_timespec *ts, sigset_t *mask)
{
	int (*real)(struct io_uring *, struct io_uring_cqe **, unsigned int,
		    struct __kernel_timespec *, sigset_t *) =
		dlsym(RTLD_NEXT, "io_uring_submit_and_wait_timeout");

	break_out(ring);
	return real(ring, cqe, wait, ts, mask);
}

int
io_uring_submit_and_wait(struct io_uring *ring, unsigned int wait)
{
	int (*real)(struct io_uring *, unsigned int) = dlsym(RTLD_NEXT, "io_uring_submit_and_wait");

	break_out(ring);
	return real(ring, wait);
}
