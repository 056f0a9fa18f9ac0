/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Makes a server do the same work in every run, while bench/instructions counts its instructions.
 * This library is loaded before the server's own ones (LD_PRELOAD), under callgrind, and replaces
 * the functions in which the server waits.
 *
 * A wait ends only when no more events arrive. So neither the disk nor other processes have an
 * influence on how much work a server finds when it wakes up, and on how often it wakes up. Time
 * advances only when a program asks for it. The work of this library is not counted. Other threads
 * run during a wait, which valgrind 3.19 does not allow in io_uring_enter().
 *
 * The library shares the file $PATIENCE with the bench, which writes `orders` there and reads the
 * rest.
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

/* In nanoseconds: the pause between two checks for events, and how much CLOCK_MONOTONIC and
 * CLOCK_BOOTTIME advance when they are read. */
#define PAUSE 500000
#define TICK  20000

struct page {
	_Atomic uint32_t orders; /* how many dumps of the counts the bench has asked for */
	_Atomic uint32_t done;   /* how many dumps were written to a file; each resets the counts */
	_Atomic uint32_t idle;   /* 1: an event loop waits, and has no event */
};

static struct page *page;

__attribute__((constructor)) static void
map_page(void)
{
	const char *path = getenv("PATIENCE");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *memory =
		fd < 0 ? MAP_FAILED
		       : mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED)
		abort();
	close(fd);
	page = memory;
}

static void
take_pause(void)
{
	nanosleep(&(struct timespec){0, PAUSE}, NULL);
}

static void
obey_line(void)
{
	uint32_t orders = atomic_load(&page->orders);

	if (orders == atomic_load(&page->done))
		return;
	CALLGRIND_DUMP_STATS;
	atomic_store(&page->done, orders);
}

/* ---- waits */

static unsigned int
completions_look(struct io_uring *ring)
{
	/* Completions become visible to this thread only when it enters the kernel. */
	syscall(SYS_io_uring_enter, ring->ring_fd, 0, 0, IORING_ENTER_GETEVENTS, NULL, _NSIG / 8);
	return io_uring_cq_ready(ring);
}

int
io_uring_submit_and_wait(struct io_uring *ring, unsigned int wanted)
{
	int submitted = io_uring_submit_and_get_events(ring);
	unsigned int ready = io_uring_cq_ready(ring), before;

	if (submitted < 0 || wanted == 0)
		return submitted;
	CALLGRIND_TOGGLE_COLLECT;
	do {
		before = ready;
		atomic_store(&page->idle, ready == 0);
		take_pause();
		ready = completions_look(ring);
	} while (ready < wanted || ready != before);
	atomic_store(&page->idle, 0);
	CALLGRIND_TOGGLE_COLLECT;
	return submitted;
}

/* While there are deadlines, such as that of a handshake. */
int
io_uring_submit_and_wait_timeout(struct io_uring *ring, struct io_uring_cqe **cqe,
				 unsigned int wanted, struct __kernel_timespec *timeout,
				 sigset_t *mask)
{
	int64_t left = timeout->tv_sec * 1000000000 + timeout->tv_nsec;
	int submitted = io_uring_submit_and_get_events(ring);

	(void)mask;
	*cqe = NULL;
	CALLGRIND_TOGGLE_COLLECT;
	while (submitted >= 0 && io_uring_cq_ready(ring) < wanted && left > 0) {
		take_pause();
		left -= PAUSE;
		completions_look(ring);
	}
	CALLGRIND_TOGGLE_COLLECT;
	return submitted;
}

static int
descriptors_look(struct pollfd *descriptors, nfds_t count)
{
	return ppoll(descriptors, count, &(struct timespec){0}, NULL);
}

int
epoll_wait(int fd, struct epoll_event *events, int count, int timeout_ms)
{
	struct pollfd descriptor = {.fd = fd, .events = POLLIN};

	if (timeout_ms < 0) {
		CALLGRIND_TOGGLE_COLLECT;
		while (descriptors_look(&descriptor, 1) == 0) {
			atomic_store(&page->idle, 1);
			take_pause();
		}
		atomic_store(&page->idle, 0);
		take_pause();
		CALLGRIND_TOGGLE_COLLECT;
	}
	return epoll_pwait(fd, events, count, timeout_ms < 0 ? 0 : timeout_ms, NULL);
}

/* The main threads of both servers wait here. */
int
poll(struct pollfd *descriptors, nfds_t count, int timeout_ms)
{
	int n;

	if (timeout_ms >= 0)
		return ppoll(descriptors, count,
			     &(struct timespec){timeout_ms / 1000, timeout_ms % 1000 * 1000000L},
			     NULL);
	CALLGRIND_TOGGLE_COLLECT;
	while ((n = descriptors_look(descriptors, count)) == 0) {
		take_pause();
		obey_line();
	}
	CALLGRIND_TOGGLE_COLLECT;
	return n;
}

/* ---- time */

int
clock_gettime(clockid_t clock, struct timespec *now)
{
	static _Atomic uint64_t ns = 1000000000;
	uint64_t then;

	if (clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME && clock != CLOCK_MONOTONIC_COARSE)
		return (int)syscall(SYS_clock_gettime, clock, now);
	then = atomic_fetch_add(&ns, clock == CLOCK_MONOTONIC_COARSE ? 0 : TICK);
	*now = (struct timespec){(time_t)(then / 1000000000), (long)(then % 1000000000)};
	return 0;
}
