/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the server asks about the machine that it runs on, and the clocks: a machine with two
 * processors, no environment and one user.
 */
#include "tests/simulation/call.h"
#include "tests/simulation/chance.h"
#include "tests/simulation/disk.h"
#include "tests/simulation/file.h"
#include "tests/simulation/kaio.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/trace.h"

#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* Of the wall clock, at the start of each run. */
#define START INT64_C(1700000000)

/* From the machine's boot to the start of a server: longer than what the server calls long ago. */
#define BOOT_TIME (3 * SECOND)

/* The processor has no special instructions, so that all machines take the same way. */
struct {
	unsigned int vendor, type, subtype, features[1];
} world___cpu_model;

CALL(int, clock_gettime, clockid_t clock, struct timespec *now)
{
	int64_t ns = scheduler_now();

	if (clock == CLOCK_REALTIME)
		ns += START * SECOND;
	else if (clock == CLOCK_BOOTTIME)
		ns += BOOT_TIME - disk_booted_at();
	now->tv_sec = ns / SECOND;
	now->tv_nsec = ns % SECOND;
	return 0;
}

CALL(time_t, time, time_t *now)
{
	const time_t seconds = START + scheduler_now() / SECOND;

	if (now)
		*now = seconds;
	return seconds;
}

CALL(int, nanosleep, const struct timespec *time, struct timespec *left)
{
	(void)left;
	scheduler_sleep(time->tv_sec * SECOND + time->tv_nsec);
	return 0;
}

CALL(int, usleep, useconds_t us)
{
	scheduler_sleep((int64_t)us * MICROSECOND);
	return 0;
}

CALL(ssize_t, getrandom, void *bytes, size_t size, unsigned int flags)
{
	(void)flags;
	for (size_t i = 0; i < size; i++)
		((unsigned char *)bytes)[i] = (unsigned char)chance_below(256);
	return (ssize_t)size;
}

CALL(char *, getenv, const char *name)
{
	(void)name;
	return NULL;
}

CALL(char *, secure_getenv, const char *name)
{
	(void)name;
	return NULL;
}

CALL(int, unsetenv, const char *name)
{
	(void)name;
	return 0;
}

CALL(uid_t, geteuid, void)
{
	return 0;
}

CALL(gid_t, getegid, void)
{
	return 0;
}

CALL(pid_t, getpid, void)
{
	return 4000;
}

CALL(pid_t, gettid, void)
{
	return (pid_t)(4000 + scheduler_self()->id);
}

CALL(int, uname, struct utsname *name)
{
	*name = (struct utsname){.sysname = "Linux", .release = "6.12.0", .machine = "simulated"};
	return 0;
}

CALL(int, isatty, int fd)
{
	(void)fd;
	errno = ENOTTY;
	return 0;
}

CALL(mode_t, umask, mode_t mask)
{
	(void)mask;
	return 022;
}

CALL(int, sched_getaffinity, pid_t pid, size_t size, cpu_set_t *set)
{
	(void)pid;
	memset(set, 0, size);
	CPU_SET(0, set);
	CPU_SET(1, set);
	return 0;
}

CALL(int, getrlimit, int what, struct rlimit *limit)
{
	(void)what;
	*limit = (struct rlimit){1024, 1024};
	return 0;
}

CALL(int, setrlimit, int what, const struct rlimit *limit)
{
	(void)what;
	(void)limit;
	return 0;
}

CALL(sighandler_t, signal, int number, sighandler_t handler)
{
	(void)number;
	(void)handler;
	return SIG_DFL;
}

CALL(long, sysconf, int what)
{
	return what == _SC_PAGESIZE ? 4096 : what == _SC_NPROCESSORS_ONLN ? 2 : -1;
}

/* The calls that absent-calls lists. */
void
call_absent(const char *name);
void
call_absent(const char *name)
{
	trace_fail("%s() is not simulated", name);
}

/* ---- calls without a function */

CALL(long, syscall, long number, ...)
{
	va_list arguments;
	long r;

	va_start(arguments, number);
	r = number == SYS_statx     ? file_tell_align(arguments)
	    : number == SYS_openat2 ? file_open_beneath(arguments)
				    : kaio_call(number, arguments);
	va_end(arguments);
	CALL_RETURN(r);
}
