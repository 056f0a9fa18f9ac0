/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/simulation/fiber.h"

#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define STACK ((size_t)512 << 10)

/* The thread-local variables of this program, which are all the product's. */
static char *local;
static size_t local_size;
static char local_at_start[FIBER_LOCAL];

/* Stacks that no fiber uses: a list in their first bytes. */
static char *unused;

static int
fiber_find_local(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	(void)data;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type == PT_TLS) {
			local = info->dlpi_tls_data;
			local_size = info->dlpi_phdr[i].p_memsz;
		}
	}
	return 1; /* the first one is the program */
}

void
fiber_prepare(void)
{
	dl_iterate_phdr(fiber_find_local, NULL);
	if (local_size > FIBER_LOCAL) {
		fprintf(stderr, "%zu bytes of thread-local variables: FIBER_LOCAL is too small\n",
			local_size);
		exit(2);
	}
	memcpy(local_at_start, local, local_size);
}

struct fiber *
fiber_new(void (*run)(void))
{
	struct fiber *fiber = calloc(1, sizeof(*fiber));

	if (unused) {
		fiber->stack = unused;
		memcpy(&unused, unused, sizeof(unused));
	} else {
		fiber->stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	}
	memcpy(&fiber->context, &run, sizeof(run));
	memcpy(fiber->local, local_at_start, sizeof(fiber->local));
	return fiber;
}

static _Noreturn void
fiber_begin(struct fiber *fiber)
{
	ucontext_t context;
	void (*run)(void);

	memcpy(&run, &fiber->context, sizeof(run));
	fiber->begun = true;
	getcontext(&context);
	context.uc_stack.ss_sp = fiber->stack;
	context.uc_stack.ss_size = STACK;
	context.uc_link = NULL;
	makecontext(&context, run, 0);
	setcontext(&context);
	abort();
}

void
fiber_switch(struct fiber *from, struct fiber *to)
{
	if (from) {
		from->error = errno;
		memcpy(from->local, local, local_size);
		if (_setjmp(from->context))
			return;
	}
	memcpy(local, to->local, local_size);
	errno = to->error;
	if (!to->begun)
		fiber_begin(to);
	_longjmp(to->context, 1);
}

void
fiber_free(struct fiber *fiber)
{
	memcpy(fiber->stack, &unused, sizeof(unused));
	unused = fiber->stack;
	free(fiber);
}
