/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For LD_PRELOAD: the kernel has no memory for filters of system calls, except for those of the
 * main thread.
 */
#include <dlfcn.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ARGUMENTS 6

long
syscall(long number, ...)
{
	static long (*next)(long number, ...);
	long argument[ARGUMENTS];
	va_list list;

	/* A call has less of them; what follows is not used. */
	va_start(list, number);
	for (int i = 0; i < ARGUMENTS; i++)
		argument[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_seccomp && argument[0] == SECCOMP_SET_MODE_FILTER &&
	    gettid() != getpid()) {
		errno = ENOMEM;
		return -1;
	}
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "syscall");
	return next(number, argument[0], argument[1], argument[2], argument[3], argument[4],
		    argument[5]);
}
