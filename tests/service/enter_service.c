/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gives itself all that systemd gave to a process of a service, and runs a command:
 *
 *	enter_service PID FILTERS COMMAND [ARGUMENT...]
 *
 * FILTERS is a file with the system-call filters of the process, which enter_service PID FILTERS
 * writes: a test whose own process has filters could not read them.
 *
 * Nothing here knows the settings of a unit: namespaces, control group, system-call filters, user,
 * groups, capabilities and umask are read from the process PID.  The command keeps the number, the
 * descriptors and the environment of this process, as if a test had started it itself.  What is
 * not taken over: resource limits, which tests lower (tests/service/run sets the unit's for all),
 * and profiles of AppArmor.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define GROUPS_MAX 64
#define STATUS_MAX 8192

/* As /proc/PID/status has it. */
struct status {
	char text[STATUS_MAX];
};

static _Noreturn void __attribute__((format(printf, 1, 2))) die(const char *format, ...)
{
	va_list args;

	fputs("enter_service: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(99);
}

static void
read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	if (n < 0)
		die("%s: %s", path, strerror(errno));
	text[n] = '\0';
	close(fd);
}

static void
status_read(struct status *status, const char *process)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%s/status", process);
	read_file(path, status->text, sizeof(status->text));
}

/* The value of a line, up to its end; the line must be there. */
static const char *
status_find(const struct status *status, const char *name, size_t *length)
{
	char start[64];
	const char *at;

	snprintf(start, sizeof(start), "\n%s:\t", name);
	at = strstr(status->text, start);
	if (!at)
		die("the kernel tells no \"%s\" of a process", name);
	at += strlen(start);
	*length = strcspn(at, "\n");
	return at;
}

static unsigned long long
status_number(const struct status *status, const char *name, int base)
{
	size_t length;

	return strtoull(status_find(status, name, &length), NULL, base);
}

/* ---- system-call filters */

static void
save(int fd, const void *bytes, size_t size)
{
	if (write(fd, bytes, size) != (ssize_t)size)
		die("the file of filters: %s", strerror(errno));
}

/* Number 0 is the oldest one.  False: there is no such filter. */
static bool
filter_copy(pid_t pid, unsigned int number, int fd)
{
	struct sock_filter program[BPF_MAXINSNS];
	long n = ptrace(PTRACE_SECCOMP_GET_FILTER, pid, (void *)(long)number, program);
	unsigned short length = (unsigned short)n;

	if (n < 0 && errno == ENOENT)
		return false;
	if (n < 0)
		die("filter %u of process %d: %s", number, pid, strerror(errno));
	save(fd, &length, sizeof(length));
	save(fd, program, length * sizeof(program[0]));
	return true;
}

static void
filters_save(pid_t pid, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	unsigned int number = 0;
	int status;

	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0 ||
	    ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0 || waitpid(pid, &status, __WALL) != pid)
		die("process %d can't be stopped: %s", pid, strerror(errno));
	while (filter_copy(pid, number, fd))
		number++;
	if (ptrace(PTRACE_DETACH, pid, NULL, NULL) < 0 || close(fd) < 0)
		die("process %d, or %s: %s", pid, path, strerror(errno));
}

/* In the order in which they were installed there. */
static void
filters_install(FILE *file)
{
	struct sock_filter program[BPF_MAXINSNS];
	unsigned short length;

	while (fread(&length, sizeof(length), 1, file) == 1) {
		struct sock_fprog filter = {.len = length, .filter = program};

		if (fread(program, sizeof(program[0]), length, file) != length)
			die("the file of filters is not whole");
		if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter) < 0)
			die("a filter of %u steps: %s", length, strerror(errno));
	}
	fclose(file);
}

/* ---- namespaces and control group */

static void
enter_group(const char *process)
{
	char path[4096 + 64], text[4096];
	const char *group;
	int fd;

	snprintf(path, sizeof(path), "/proc/%s/cgroup", process);
	read_file(path, text, sizeof(text));
	/* In the unified hierarchy, the only one that this systemd has. */
	group = strstr(text, "0::/");
	if (!group)
		die("%s tells of no unified hierarchy", path);
	group += strlen("0::");
	snprintf(path, sizeof(path), "/sys/fs/cgroup%.*s/cgroup.procs", (int)strcspn(group, "\n"),
		 group);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, "0", 1) != 1)
		die("%s: %s", path, strerror(errno));
	close(fd);
}

static bool
is_same_namespace(const char *process, const char *name)
{
	char own[64], its[64];
	struct stat a, b;

	snprintf(own, sizeof(own), "/proc/self/ns/%s", name);
	snprintf(its, sizeof(its), "/proc/%s/ns/%s", process, name);
	if (stat(own, &a) < 0 || stat(its, &b) < 0)
		die("%s: %s", its, strerror(errno));
	return a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

/* That of files last: it has another /proc. */
static void
enter_namespaces(const char *process)
{
	static const char *const names[] = {"user", "pid", "time", "cgroup",
					    "ipc",  "net", "uts",  "mnt"};
	int fds[sizeof(names) / sizeof(names[0])];
	char *directory = getcwd(NULL, 0);

	if (!directory)
		die("the working directory: %s", strerror(errno));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char path[64];

		snprintf(path, sizeof(path), "/proc/%s/ns/%s", process, names[i]);
		fds[i] = is_same_namespace(process, names[i]) ? -1
							      : open(path, O_RDONLY | O_CLOEXEC);
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (fds[i] >= 0 && setns(fds[i], 0) < 0)
			die("the namespace %s of process %s: %s", names[i], process,
			    strerror(errno));
		if (fds[i] >= 0)
			close(fds[i]);
	}
	/* A service's own directory is another one, which tests could not name files in. */
	if (chdir(directory) < 0)
		die("%s, in the namespace of process %s: %s", directory, process, strerror(errno));
	free(directory);
}

/* ---- user and capabilities */

static void
become_user(const struct status *status)
{
	size_t length;
	const char *at = status_find(status, "Groups", &length), *end = at + length;
	gid_t groups[GROUPS_MAX];
	size_t count = 0;
	char *next;

	for (; at < end; at = next) {
		gid_t group = (gid_t)strtoul(at, &next, 10);

		if (next == at || next > end)
			break;
		if (count == GROUPS_MAX)
			die("too many groups");
		groups[count++] = group;
	}
	if (setgroups(count, groups) < 0 || setgid((gid_t)status_number(status, "Gid", 10)) < 0 ||
	    setuid((uid_t)status_number(status, "Uid", 10)) < 0)
		die("becoming the service's user: %s", strerror(errno));
}

static void
bound_capabilities(const struct status *status)
{
	unsigned long long bound = status_number(status, "CapBnd", 16);

	for (unsigned int i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++) {
		if (!(bound >> i & 1) && prctl(PR_CAPBSET_DROP, i, 0, 0, 0) < 0)
			die("capability %u: %s", i, strerror(errno));
	}
}

/* ---- the result */

/* All that the kernel tells of both is the same; a test may have installed `more` filters. */
static void
compare(const struct status *wanted, unsigned long long more)
{
	static const char *const names[] = {"Umask",  "Uid",        "Gid",    "Groups",
					    "CapInh", "CapPrm",     "CapEff", "CapBnd",
					    "CapAmb", "NoNewPrivs", "Seccomp"};
	struct status own;

	status_read(&own, "self");
	if (status_number(&own, "Seccomp_filters", 10) !=
	    status_number(wanted, "Seccomp_filters", 10) + more)
		die("not all filters of the service are there");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t a_length, b_length;
		const char *a = status_find(wanted, names[i], &a_length);
		const char *b = status_find(&own, names[i], &b_length);

		if (a_length != b_length || memcmp(a, b, a_length) != 0)
			die("%s is %.*s, and %.*s in the service", names[i], (int)b_length, b,
			    (int)a_length, a);
	}
}

int
main(int argc, char **argv)
{
	struct status own, status;
	int death_signal = 0;
	FILE *filters;

	if (argc < 3)
		die("usage: enter_service PID FILTERS [COMMAND [ARGUMENT...]]");
	if (argc == 3) {
		filters_save((pid_t)atoi(argv[1]), argv[2]);
		return 0;
	}
	status_read(&own, "self");
	status_read(&status, argv[1]);
	filters = fopen(argv[2], "re");
	if (!filters)
		die("%s: %s", argv[2], strerror(errno));
	prctl(PR_GET_PDEATHSIG, &death_signal);
	enter_group(argv[1]);
	enter_namespaces(argv[1]);
	umask((mode_t)status_number(&status, "Umask", 8));
	bound_capabilities(&status);
	become_user(&status);
	/* It was forgotten with the old user. */
	prctl(PR_SET_PDEATHSIG, (unsigned long)death_signal);
	if (status_number(&status, "NoNewPrivs", 10) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		die("no new privileges: %s", strerror(errno));
	filters_install(filters);
	compare(&status, status_number(&own, "Seccomp_filters", 10));
	execv(argv[3], argv + 3);
	die("%s: %s", argv[3], strerror(errno));
}
