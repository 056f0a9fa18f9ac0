/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/faults/shared.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct shared *shared;

static void __attribute__((constructor)) shared_open(void)
{
	const char *path = getenv("FAULTS_SHARED");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *memory;

	if (fd < 0)
		abort();
	memory = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		abort();
	close(fd);
	shared = memory;
}

uint64_t
draw(void)
{
	uint64_t x = (atomic_fetch_add(&shared->drawn, 1) + ((uint64_t)shared->seed << 32)) *
		     UINT64_C(0x9E3779B97F4A7C15);

	x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
	return x ^ (x >> 31);
}

bool
now(enum what what, unsigned int seldom)
{
	return shared && atomic_load(&shared->armed) && shared->what & what &&
	       draw() % (shared->rate * seldom) == 0;
}

void
count(enum count which)
{
	atomic_fetch_add(&shared->counts[which], 1);
}

int
one_of(const int *errors, size_t number)
{
	return errors[draw() % number];
}

bool
is_ours(const void *code)
{
	Dl_info info;

	return dladdr(code, &info) && info.dli_fname &&
	       (strstr(info.dli_fname, "nbdloopd") || strstr(info.dli_fname, "nbdkit-loop-plugin"));
}

void
stall(void)
{
	if (!now(STALL, 20))
		return;
	count(STALLS);
	usleep(300000 + (unsigned int)(draw() % 900000));
}
