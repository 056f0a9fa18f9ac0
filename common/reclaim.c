/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/reclaim.h"

#include "common/error.h"
#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Size of a thread's stack, in bytes. The engine and nbdkit need a few KiB. */
#define RECLAIM_STACK ((size_t)256 << 10)

/* Linux 5.6 has it, but not the headers of some older C libraries. */
#ifndef PR_SET_IO_FLUSHER
#define PR_SET_IO_FLUSHER 57
#endif

static int
reclaim_explain(char **error, int err, const char *what, const char *way_out)
{
	return error_set(error, -err, "%s: %s; %s", what, strerror(err), way_out);
}

/* Returns 0, or -errno of open() or write(). */
static int
avoid_oom_killer(void)
{
	static const char never[] = "-1000";
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	int r = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, never, sizeof(never) - 1) < 0)
		r = -errno;
	close(fd);
	return r;
}

/*
 * Real-time threads may use the last of the memory. Other threads would wait for a bio whose
 * reserve is in use by writes to the swap space, and those wait for this server. The lowest
 * priority is enough.
 */
static void
take_priority(void)
{
	const struct sched_param lowest = {.sched_priority = 1};

	if (sched_setscheduler(0, SCHED_RR, &lowest) < 0)
		log_warning(
			"no real-time priority: %s; when memory is short, the server may wait for writes that wait for "
			"the server; it needs root, or the capability CAP_SYS_NICE",
			strerror(errno));
}

int
reclaim_serve(char **error)
{
	int r;

	if (prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) < 0) {
		r = errno;
		return reclaim_explain(
			error, r, "PR_SET_IO_FLUSHER",
			r == EINVAL ? "it needs Linux 5.6"
				    : "it needs root, or the capability CAP_SYS_RESOURCE");
	}
	r = avoid_oom_killer();
	if (r < 0)
		return reclaim_explain(error, -r, "/proc/self/oom_score_adj",
				       "it needs root, or the capability CAP_SYS_RESOURCE");
	take_priority();
	return 0;
}

/* Reads a byte of each page of the program and its libraries, so that the pages are in memory, and
 * locked. */
static int
read_program_in(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, end, inode;
	char line[4096 + 128];
	long page = sysconf(_SC_PAGESIZE);

	if (!maps)
		return -errno;
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx r%*3s %*s %*s %lu", &start, &end, &inode) != 3 ||
		    inode == 0)
			continue;
		for (const volatile char *at = (const char *)start; at < (const char *)end;
		     at += page)
			(void)*at;
	}
	fclose(maps);
	return 0;
}

/*
 * Makes a heap that has its memory already, for all later allocations of all threads; it never
 * shrinks. In nbdkit, these are mostly the buffers of its threads, one request each.
 */
static int
reserve_heap(size_t size)
{
#ifdef __GLIBC__
	char *memory;

	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_MAX, 0);
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
	memory = malloc(size);
	if (!memory)
		return -ENOMEM;
	/* Not memset(): the compiler would see that nothing reads the memory. */
	explicit_bzero(memory, size);
	free(memory);
#else
	(void)size;
#endif
	return 0;
}

/* With short stacks, all of a stack can have memory from the start. */
static int
shorten_stacks(void)
{
	pthread_attr_t attributes;
	int r = pthread_getattr_default_np(&attributes);

	if (r == 0)
		r = pthread_attr_setstacksize(&attributes, RECLAIM_STACK);
	if (r == 0)
		r = pthread_setattr_default_np(&attributes);
	return -r;
}

/* Returns the kernel's estimate of the available memory, in bytes; UINT64_MAX: there is none
 * (before Linux 3.14). */
static uint64_t
available_memory(void)
{
	FILE *meminfo = fopen("/proc/meminfo", "re");
	uint64_t kib = UINT64_MAX >> 10;
	char line[128];

	if (!meminfo)
		return UINT64_MAX;
	while (fgets(line, sizeof(line), meminfo) &&
	       sscanf(line, "MemAvailable: %" SCNu64, &kib) != 1)
		;
	fclose(meminfo);
	return kib << 10;
}

static int
check_available(uint64_t wanted, bool force, const char *way_out, char **error)
{
	uint64_t available = available_memory();

	if (wanted <= available / 2)
		return 0;
	if (force) {
		log_warning(
			"swap=on: %" PRIu64 " MiB are taken and locked, of %" PRIu64
			" MiB of available memory, because of force=on: the machine may come to a stop",
			wanted >> 20, available >> 20);
		return 0;
	}
	return error_set(error, -ENOMEM,
			 "%" PRIu64 " MiB would be taken and locked, of %" PRIu64
			 " MiB of available memory; at most half of it may be locked: %s",
			 wanted >> 20, available >> 20, way_out);
}

int
reclaim_lock_memory(size_t heap, uint64_t later, bool force, const char *way_out, char **error)
{
	int r = check_available(later <= UINT64_MAX - heap ? heap + later : UINT64_MAX, force,
				way_out, error);

	if (r < 0)
		return r;
	/* A touched page of a stack or heap would become a huge page, megabytes for each thread. */
	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) < 0)
		return reclaim_explain(error, errno,
				       "huge pages can't be turned off (PR_SET_THP_DISABLE)",
				       "it needs Linux 3.15");
	r = shorten_stacks();
	if (r < 0)
		return reclaim_explain(error, -r, "threads' stacks can't be made shorter",
				       "this should not happen");
	/* The first call locks the memory in use, but not what nothing has touched yet (in nbdkit,
	 * 192 MiB of static variables). The second one locks later memory when it is mapped. */
	if (mlockall(MCL_CURRENT | MCL_ONFAULT) < 0 || mlockall(MCL_FUTURE) < 0)
		return reclaim_explain(
			error, errno, "the process's memory can't be locked",
			"it needs root, the capability CAP_IPC_LOCK, or a higher limit (ulimit -l)");
	r = read_program_in();
	if (r < 0)
		return reclaim_explain(error, -r, "/proc/self/maps", "is /proc mounted?");
	r = reserve_heap(heap);
	if (r < 0)
		return reclaim_explain(error, -r, "there is no memory to reserve",
				       "see the manual");
	return 0;
}
