/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/http/fetch/confine.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The user and group "nobody" of Debian, and "nobody" of most others. */
#define NOBODY 65534

/* The most memory, in bytes: of threads' stacks, too. */
#define MEMORY_MAX (UINT64_C(1) << 30)

int
confine_user(void)
{
	if (geteuid() != 0)
		return 0;
	if (setgroups(0, NULL) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
	    setresuid(NOBODY, NOBODY, NOBODY) == 0)
		return 0;
	/* In a user namespace without that user, its root stays. */
	return errno == EINVAL || errno == EPERM ? 0 : -errno;
}

/* ---- Landlock: server/sandbox/landlock.c tells more of it */

#define CREATE_RULESET 444
#define ADD_RULE       445
#define RESTRICT_SELF  446

#define READ_FILE      (UINT64_C(1) << 2)
#define READ_DIR       (UINT64_C(1) << 3)

/* All accesses to files that the versions 1, 2, 3 and 5 know. */
#define FIRST_ACCESSES ((UINT64_C(1) << 13) - 1)
#define REFER          (UINT64_C(1) << 13)
#define TRUNCATE       (UINT64_C(1) << 14)
#define IOCTL_DEV      (UINT64_C(1) << 15)

struct landlock_rules {
	uint64_t files, network, scoped;
};

struct landlock_beneath {
	uint64_t allowed;
	int32_t parent;
} __attribute__((packed));

/* What the resolver, libcurl and its TLS read. Not /etc, which has keys. */
static const char *const readable[] = {
	"/etc/ca-certificates",
	"/etc/crypto-policies",
	"/etc/gai.conf",
	"/etc/gnutls",
	"/etc/host.conf",
	"/etc/hosts",
	"/etc/ld.so.cache",
	"/etc/nsswitch.conf",
	"/etc/pki/ca-trust",
	"/etc/pki/tls/cert.pem",
	"/etc/pki/tls/certs",
	"/etc/pki/tls/openssl.cnf",
	"/etc/resolv.conf",
	"/etc/services",
	"/etc/ssl/ca-bundle.pem",
	"/etc/ssl/cert.pem",
	"/etc/ssl/certs",
	"/etc/ssl/openssl.cnf",
	"/lib",
	"/lib32",
	"/lib64",
	"/usr/lib",
	"/usr/lib32",
	"/usr/lib64",
	"/usr/local/share/ca-certificates",
	"/usr/share/ca-certificates",
	"/usr/share/crypto-policies",
	"/usr/share/pki",
	"/dev/null",
	"/dev/urandom",
};

static int
landlock_allow(int rules, const char *path)
{
	int CLEANUP_CLOSE fd = open(path, O_PATH | O_CLOEXEC);
	struct landlock_beneath rule = {.allowed = READ_FILE | READ_DIR, .parent = fd};
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return 0;
	if (!S_ISDIR(st.st_mode))
		rule.allowed = READ_FILE;
	return syscall(ADD_RULE, rules, 1, &rule, 0u) < 0 ? -errno : 0;
}

/* Returns the version that is in force, or -errno. */
static int
confine_paths(void)
{
	long version = syscall(CREATE_RULESET, NULL, (size_t)0, 1u);
	const struct landlock_rules rules = {
		.files = FIRST_ACCESSES | (version >= 2 ? REFER : 0) |
			 (version >= 3 ? TRUNCATE : 0) | (version >= 5 ? IOCTL_DEV : 0),
		/* Abstract sockets and signals of others. */
		.scoped = version >= 6 ? 3 : 0,
	};
	int CLEANUP_CLOSE fd = -1;
	int r = 0;

	if (version < 0)
		return -errno;
	fd = (int)syscall(CREATE_RULESET, &rules, sizeof(rules), 0u);
	if (fd < 0)
		return -errno;
	for (size_t i = 0; r == 0 && i < sizeof(readable) / sizeof(readable[0]); i++)
		r = landlock_allow(fd, readable[i]);
	if (r == 0 && syscall(RESTRICT_SELF, fd, 0u) < 0)
		r = -errno;
	return r < 0 ? r : (int)version;
}

/* ---- system calls */

static const char *const allowed[] = {
	/* memory, threads, time */
	"arch_prctl",
	"brk",
	"clock_getres",
	"clock_getres_time64",
	"clock_gettime",
	"clock_gettime64",
	"clock_nanosleep",
	"clock_nanosleep_time64",
	"exit",
	"exit_group",
	"futex",
	"futex_time64",
	"get_robust_list",
	"getcpu",
	"getegid",
	"getegid32",
	"geteuid",
	"geteuid32",
	"getgid",
	"getgid32",
	"getpid",
	"getppid",
	"getrandom",
	"getresgid",
	"getresgid32",
	"getresuid",
	"getresuid32",
	"getrlimit",
	"getrusage",
	"gettid",
	"gettimeofday",
	"getuid",
	"getuid32",
	"madvise",
	"membarrier",
	"mlock",
	"mlock2",
	"mmap",
	"mmap2",
	"mprotect",
	"mremap",
	"munlock",
	"munmap",
	"nanosleep",
	"prctl",
	"restart_syscall",
	"rseq",
	"rt_sigaction",
	"rt_sigprocmask",
	"rt_sigreturn",
	"sched_getaffinity",
	"sched_getparam",
	"sched_getscheduler",
	"sched_yield",
	"set_robust_list",
	"set_tid_address",
	"sigaltstack",
	"sigreturn",
	"sysinfo",
	"time",
	"ugetrlimit",
	"uname",
	/* files, which Landlock restricts */
	"access",
	"close",
	"dup",
	"dup2",
	"dup3",
	"faccessat",
	"faccessat2",
	"fcntl",
	"fcntl64",
	"fstat",
	"fstat64",
	"fstatat64",
	"fstatfs",
	"fstatfs64",
	"getcwd",
	"getdents",
	"getdents64",
	"_llseek",
	"lseek",
	"lstat",
	"lstat64",
	"newfstatat",
	"open",
	"openat",
	"openat2",
	"pread64",
	"preadv",
	"read",
	"readlink",
	"readlinkat",
	"readv",
	"stat",
	"stat64",
	"statx",
	"write",
	"writev",
	/* sockets, and waiting */
	"bind",
	"connect",
	"epoll_create1",
	"epoll_ctl",
	"epoll_pwait",
	"epoll_pwait2",
	"epoll_wait",
	"eventfd2",
	"getpeername",
	"getsockname",
	"getsockopt",
	"ioctl",
	"pipe2",
	"poll",
	"ppoll",
	"ppoll_time64",
	"pselect6",
	"pselect6_time64",
	"recv",
	"recvfrom",
	"recvmmsg",
	"recvmmsg_time64",
	"recvmsg",
	"select",
	"send",
	"sendmmsg",
	"sendmsg",
	"sendto",
	"setsockopt",
	"shutdown",
	"socketcall",
};

/* What nbdloop-fetch never does, but an attacker would. */
static const char *const deadly[] = {
	"bpf",
	"chroot",
	"execve",
	"execveat",
	"fork",
	"io_uring_enter",
	"io_uring_register",
	"io_uring_setup",
	"keyctl",
	"kill",
	"memfd_create",
	"mount",
	"open_by_handle_at",
	"perf_event_open",
	"pidfd_getfd",
	"pidfd_open",
	"process_vm_readv",
	"process_vm_writev",
	"ptrace",
	"setns",
	"setuid",
	"unshare",
	"userfaultfd",
	"vfork",
};

static int
filter_add(scmp_filter_ctx filter, uint32_t action, const char *const *names, size_t count)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < count; i++) {
		int call = seccomp_syscall_resolve_name(names[i]);

		if (call == __NR_SCMP_ERROR)
			continue;
		r = seccomp_rule_add(filter, action, call, 0);
		/* The architecture has no such call. */
		if (r == -EDOM || r == -EINVAL)
			r = 0;
	}
	return r;
}

/* The name services that need a unix socket (nscd, systemd-resolved's, sssd) are left out, and DNS
 * comes next. Netlink tells the resolver which addresses this machine has. */
static int
filter_add_sockets(scmp_filter_ctx filter)
{
	static const unsigned int families[] = {AF_INET, AF_INET6, AF_NETLINK};
	int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socketpair), 1,
				 SCMP_CMP(0, SCMP_CMP_EQ, AF_UNIX, 0));

	for (size_t i = 0; r == 0 && i < sizeof(families) / sizeof(families[0]); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1,
				     SCMP_CMP(0, SCMP_CMP_EQ, families[i], 0));
	if (r == 0)
		r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
				     SCMP_CMP(0, SCMP_CMP_EQ, AF_UNIX, 0));
	return r;
}

/* Threads, but no processes: see server/sandbox/call_filter.c. */
static int
filter_add_threads(scmp_filter_ctx filter)
{
#ifdef __s390__
	const unsigned int flags = 1;
#else
	const unsigned int flags = 0;
#endif
	return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
				SCMP_CMP(flags, SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
}

static int
confine_calls(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
	int r;

	if (!filter)
		return -ENOMEM;
	seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	r = filter_add(filter, SCMP_ACT_ALLOW, allowed, sizeof(allowed) / sizeof(allowed[0]));
	if (r == 0)
		r = filter_add(filter, SCMP_ACT_KILL_PROCESS, deadly,
			       sizeof(deadly) / sizeof(deadly[0]));
	if (r == 0)
		r = filter_add_sockets(filter);
	if (r == 0)
		r = filter_add_threads(filter);
	if (r == 0)
		/* Its own limits, not those of another process. */
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 1,
				     SCMP_CMP(0, SCMP_CMP_EQ, 0, 0));
	if (r == 0)
		r = seccomp_load(filter);
	seccomp_release(filter);
	return r;
}

/* A sanitizer's runtime makes calls of its own, and takes much memory. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

void
confine(char *text, size_t size)
{
	const struct rlimit none = {0, 0}, memory = {MEMORY_MAX, MEMORY_MAX};
	int files, calls;
	char landlock[64];

	if (SANITIZED) {
		snprintf(text, size, "process %d, none: this build has a sanitizer", (int)getpid());
		return;
	}
	setrlimit(RLIMIT_CORE, &none);
	setrlimit(RLIMIT_FSIZE, &none);
	setrlimit(RLIMIT_DATA, &memory);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	files = confine_paths();
	calls = confine_calls();
	if (files > 0)
		snprintf(landlock, sizeof(landlock), "landlock %d", files);
	else
		snprintf(landlock, sizeof(landlock), "no landlock (%s)", strerror(-files));
	snprintf(text, size, "process %d, user %u, no new privileges, %s, %s%s%s", (int)getpid(),
		 (unsigned int)geteuid(), landlock, calls == 0 ? "seccomp" : "no seccomp (",
		 calls == 0 ? "" : strerror(-calls), calls == 0 ? "" : ")");
}
