/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/sandbox/call_filter.h"

#include "server/sandbox/call_lists.h"

#include "common/cleanup.h"
#include "engine/backend/restriction.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of a newer kernel than libseccomp's tables, on all architectures. */
#define IO_URING_REGISTER 427

/* Which argument of clone() has its flags. */
#ifdef __s390__
#define CLONE_FLAGS_ARGUMENT 1
#else
#define CLONE_FLAGS_ARGUMENT 0
#endif

/* Before Linux 5.16, a filter would otherwise slow down all of the thread's code, as a mitigation
 * for programs that run code of others. */
#ifndef SECCOMP_FILTER_FLAG_SPEC_ALLOW
#define SECCOMP_FILTER_FLAG_SPEC_ALLOW 4
#endif

static struct sock_fprog programs[FILTERS];

/* Of a kind of thread. */
#define LISTS_MAX 10

/* What a kind of thread does, besides what all do. */
static const struct {
	const char *const *lists[LISTS_MAX];
	bool starts; /* threads */
	bool maps;   /* code of libraries, which name services load */
	bool rings;  /* uses rings that THREAD_RINGS has made */
} uses[FILTERS] = {
	/* A loop opens the image anew, through /proc/self/fd, for a context of its own. */
	[THREAD_LOOP] = {{stream_calls, page_cache_calls, file_calls, socket_calls, aio_calls,
			  ring_calls, open_calls},
			 true,
			 false,
			 true},
	/* It copies for snapshots by Linux AIO (engine/snapshot/part_reads.h). */
	[THREAD_HELPER] = {{stream_calls, page_cache_calls, file_calls, aio_calls, open_calls},
			   false,
			   false,
			   false},
	[THREAD_RECORDER] = {{stream_calls, file_calls, open_calls, name_calls},
			     false,
			     false,
			     false},
	[THREAD_SWEEPER] = {{stream_calls, page_cache_calls}, false, false, false},
	[THREAD_HANDSHAKES] = {{stream_calls, socket_calls}, false, false, false},
	[THREAD_HTTP] = {{stream_calls, page_cache_calls, file_calls, socket_calls, accept_calls,
			  open_calls},
			 false,
			 false,
			 false},
	[THREAD_FETCHES] = {{stream_calls, socket_calls}, false, false, false},
	/* It is older than the process's filter, and under this one alone. */
	[THREAD_RINGS] = {{ring_making_calls}, false, false, false},
	[FILTER_PROCESS] = {{stream_calls, page_cache_calls, file_calls, socket_calls, accept_calls,
			     aio_calls, ring_calls, open_calls, name_calls, change_calls},
			    true,
			    true,
			    true},
};

static int
filter_add_list(scmp_filter_ctx filter, uint32_t action, const char *const *names)
{
	int r = 0;

	for (; r == 0 && *names; names++) {
		int call = seccomp_syscall_resolve_name(*names);

		if (call == __NR_SCMP_ERROR)
			continue;
		r = seccomp_rule_add(filter, action, call, 0);
		/* The architecture has no such call. */
		if (r == -EDOM || r == -EINVAL)
			r = 0;
	}
	return r;
}

/* Allows a call if its argument has none of these bits. */
static int
allow_without(scmp_filter_ctx filter, const char *name, unsigned int argument, uint64_t bits)
{
	int call = seccomp_syscall_resolve_name(name);

	if (call == __NR_SCMP_ERROR)
		return 0;
	return seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 1,
				SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, bits, 0));
}

static int
allow_memory(scmp_filter_ctx filter, bool code)
{
	static const char *const all[] = {"mmap", "mmap2", "mprotect", NULL};
	int r = 0;

	if (code)
		return filter_add_list(filter, SCMP_ACT_ALLOW, all);
#if defined(__i386__) || defined(__s390__)
	/* The old mmap() of these has its arguments in memory; their C library uses it (s390x), or
	 * mmap2() (i386). */
	r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 0);
#else
	r = allow_without(filter, "mmap", 2, PROT_EXEC);
#endif
	if (r == 0)
		r = allow_without(filter, "mmap2", 2, PROT_EXEC);
	return r < 0 ? r : allow_without(filter, "mprotect", 2, PROT_EXEC);
}

/* What a ring in use needs, and its beginning; not what opens or shares another. */
static int
allow_registrations(scmp_filter_ctx filter)
{
	int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, IO_URING_REGISTER, 1,
				 SCMP_CMP(1, SCMP_CMP_EQ, IORING_REGISTER_ENABLE_RINGS, 0));

	for (unsigned int i = 0; r == 0 && i < restriction_registration_count; i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, IO_URING_REGISTER, 1,
				     SCMP_CMP(1, SCMP_CMP_EQ, restriction_registrations[i], 0));
	return r;
}

/* Of what listens for clients of snapshots, of name services and the log; not UDP or netlink. Other
 * sockets, of clients and of HTTP, are opened before the sandbox. */
static int
allow_unix_sockets(scmp_filter_ctx filter)
{
	int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
				 SCMP_CMP(0, SCMP_CMP_EQ, AF_UNIX, 0));

	return r < 0 ? r
		     : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1,
					SCMP_CMP(0, SCMP_CMP_EQ, AF_UNIX, 0));
}

/* Threads, but no processes. clone3() has its flags in memory, where no filter sees them; without
 * it, the C library uses clone(). */
static int
allow_threads(scmp_filter_ctx filter)
{
	static const char *const own_filter[] = {"seccomp", NULL};
	/* A thread may put itself under a filter. */
	int r = filter_add_list(filter, SCMP_ACT_ALLOW, own_filter);

	return r < 0 ? r
		     : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
					SCMP_CMP(CLONE_FLAGS_ARGUMENT, SCMP_CMP_MASKED_EQ,
						 CLONE_THREAD, CLONE_THREAD));
}

static bool
has_sockets(unsigned int kind)
{
	for (unsigned int i = 0; i < LISTS_MAX && uses[kind].lists[i]; i++) {
		if (uses[kind].lists[i] == socket_calls)
			return true;
	}
	return false;
}

static int
filter_fill(scmp_filter_ctx filter, unsigned int kind, bool log)
{
	/* Of i386 and s390x: one call for all that is done with sockets, with its arguments in
	 * memory, where no filter sees them. */
	static const char *const socketcall[] = {"socketcall", NULL};
	static const char *const log_calls[] = {"connect", "send", "sendto", NULL};
	int r = filter_add_list(filter, SCMP_ACT_ALLOW, basic_calls);

	if (r == 0)
		r = allow_memory(filter, uses[kind].maps);
	if (r == 0 && uses[kind].starts)
		r = allow_threads(filter);
	if (r == 0 && uses[kind].rings)
		r = allow_registrations(filter);
	if (r == 0 && kind == FILTER_PROCESS)
		/* Its own limits, not those of another process. */
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1,
				     SCMP_CMP(0, SCMP_CMP_EQ, 0, 0));
	if (r == 0 && kind == FILTER_PROCESS)
		r = allow_unix_sockets(filter);
	for (unsigned int i = 0; r == 0 && i < LISTS_MAX && uses[kind].lists[i]; i++)
		r = filter_add_list(filter, SCMP_ACT_ALLOW, uses[kind].lists[i]);
	if (r == 0 && (log || has_sockets(kind)))
		r = filter_add_list(filter, SCMP_ACT_ALLOW, socketcall);
	if (r == 0 && (kind == FILTER_PROCESS || kind == THREAD_RINGS))
		return filter_add_list(filter, SCMP_ACT_KILL_PROCESS, deadly_calls);
	/* A thread's own filter leaves those to that of the process. */
	if (r == 0)
		r = filter_add_list(filter, SCMP_ACT_ALLOW, deadly_calls);
	/* syslog() may connect again at any message. */
	if (r == 0 && log)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
				     SCMP_CMP(0, SCMP_CMP_EQ, AF_UNIX, 0));
	if (r == 0 && log)
		r = filter_add_list(filter, SCMP_ACT_ALLOW, log_calls);
	return r;
}

/* libseccomp writes the program to a file. */
static int
take_program(scmp_filter_ctx filter, struct sock_fprog *program)
{
	int CLEANUP_CLOSE fd = memfd_create("nbdloopd-filter", MFD_CLOEXEC);
	int r = fd < 0 ? -errno : seccomp_export_bpf(filter, fd);
	struct stat st;

	if (r < 0)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	program->filter = malloc((size_t)st.st_size);
	if (!program->filter)
		return -ENOMEM;
	program->len = (unsigned short)((size_t)st.st_size / sizeof(struct sock_filter));
	return pread(fd, program->filter, (size_t)st.st_size, 0) == st.st_size ? 0 : -EIO;
}

static int
filter_make(unsigned int kind, bool log)
{
	/* The C library then does without a newer call, as on an older kernel. */
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	int r;

	if (!filter)
		return -ENOMEM;
	/* Of a program for another architecture: no such call is ours. */
	seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	r = filter_fill(filter, kind, log);
	if (r == 0)
		r = take_program(filter, &programs[kind]);
	seccomp_release(filter);
	return r;
}

int
call_filters_make(bool log, const char **reason)
{
	int r = 0;

	*reason = "the kernel has none, or forbids it (CONFIG_SECCOMP_FILTER)";
	if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0,
		    &(unsigned int){SECCOMP_RET_KILL_PROCESS}) != 0)
		return -ENOSYS;
	for (unsigned int kind = 0; r == 0 && kind < FILTERS; kind++)
		r = filter_make(kind, log);
	*reason = "libseccomp can't make the filters, or has no memory for them";
	return r;
}

void
call_filters_free(void)
{
	for (unsigned int kind = 0; kind < FILTERS; kind++)
		free(steal_pointer(&programs[kind].filter));
}

int
call_filter_enter(unsigned int filter)
{
	const struct sock_fprog *program = &programs[filter];

	if (!program->filter)
		return -ENOENT;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW,
		    program) == 0 ||
	    (errno == EINVAL && syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program) == 0))
		return 0;
	return -errno;
}
