/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a command in which some system calls fail, as a container's seccomp profile makes them fail:
 *
 *	forbid_syscall io_uring_setup=EPERM io_submit=ENOSYS -- COMMAND [ARGUMENT...]
 *
 * Only calls made through the native system call table are seen; that is all the tests need.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RULES_MAX 8

static const struct {
	const char *name;
	unsigned int number;
} calls[] = {
	{"io_uring_setup", __NR_io_uring_setup},
	{"io_uring_register", __NR_io_uring_register},
	{"io_setup", __NR_io_setup},
	{"io_submit", __NR_io_submit},
	{"fallocate", __NR_fallocate},
};

static const struct {
	const char *name;
	unsigned int number;
} errors[] = {
	{"EPERM", EPERM},
	{"ENOSYS", ENOSYS},
	{"ENOMEM", ENOMEM},
};

static _Noreturn void
usage(const char *why)
{
	fprintf(stderr, "forbid_syscall: %s\n", why);
	fprintf(stderr, "usage: forbid_syscall CALL=ERRNO... -- COMMAND [ARGUMENT...]\n");
	exit(99);
}

static unsigned int
call_number(const char *name, size_t length)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strlen(calls[i].name) == length && memcmp(calls[i].name, name, length) == 0)
			return calls[i].number;
	usage("unknown system call");
}

static unsigned int
error_number(const char *name)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (strcmp(errors[i].name, name) == 0)
			return errors[i].number;
	usage("unknown error name");
}

/* Appends "if the number is CALL, return ERRNO" and returns the new length. */
static unsigned short
rule_append(struct sock_filter *code, unsigned short length, const char *rule)
{
	const char *equals = strchr(rule, '=');

	if (!equals)
		usage("a rule is CALL=ERRNO");
	unsigned int call = call_number(rule, (size_t)(equals - rule));
	unsigned int error = error_number(equals + 1);
	code[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
	code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error);
	return length;
}

int
main(int argc, char **argv)
{
	struct sock_filter code[2 + 2 * RULES_MAX];
	unsigned short length = 0;
	int i = 1;

	code[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						      offsetof(struct seccomp_data, nr));
	for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (i > RULES_MAX)
			usage("too many rules");
		length = rule_append(code, length, argv[i]);
	}
	if (i + 1 >= argc)
		usage("no command");
	code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);

	struct sock_fprog program = {.len = length, .filter = code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0) {
		perror("forbid_syscall: seccomp");
		return 99;
	}
	execvp(argv[i + 1], argv + i + 1);
	perror(argv[i + 1]);
	return 127;
}
