/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/sandbox/landlock.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The headers of Debian 12 end at version 3, so all of it is here. */
#define CREATE_RULESET 444
#define ADD_RULE       445
#define RESTRICT_SELF  446

#define ASK_VERSION    1u
#define RULE_BENEATH   1

/* Accesses to files. */
#define EXECUTE     (UINT64_C(1) << 0)
#define WRITE_FILE  (UINT64_C(1) << 1)
#define READ_FILE   (UINT64_C(1) << 2)
#define READ_DIR    (UINT64_C(1) << 3)
#define REMOVE_FILE (UINT64_C(1) << 5)
#define MAKE_REG    (UINT64_C(1) << 8)
#define MAKE_SOCK   (UINT64_C(1) << 9)
#define TRUNCATE    (UINT64_C(1) << 14) /* version 3 */
#define IOCTL_DEV   (UINT64_C(1) << 15) /* version 5 */

/* Version 1 knows the first 13; REFER (version 2) is of moves to another directory. */
#define FIRST_ACCESSES ((UINT64_C(1) << 13) - 1)
#define REFER          (UINT64_C(1) << 13)

/* Version 4: accesses to the network. */
#define CONNECT_TCP (UINT64_C(1) << 1)

/* Version 6: what may not leave the sandbox. */
#define SIGNALS (UINT64_C(1) << 1)

/* Of FIRST_ACCESSES, TRUNCATE and IOCTL_DEV: those that make sense for a file. */
#define OF_FILES (EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV)

struct ruleset {
	uint64_t files, network, scoped;
};

struct beneath {
	uint64_t allowed;
	int32_t parent;
} __attribute__((packed));

static uint64_t
known_accesses(int version)
{
	uint64_t known = FIRST_ACCESSES;

	if (version >= 2)
		known |= REFER;
	if (version >= 3)
		known |= TRUNCATE;
	if (version >= 5)
		known |= IOCTL_DEV;
	return known;
}

int
landlock_version(void)
{
	long version = syscall(CREATE_RULESET, NULL, (size_t)0, ASK_VERSION);

	return version < 0 ? -errno : (int)version;
}

int
landlock_new(int version)
{
	const struct ruleset ruleset = {
		.files = known_accesses(version),
		/* The server binds its sockets before, and connects to nobody over TCP. */
		.network = version >= 4 ? CONNECT_TCP : 0,
		/* Not abstract sockets: that of the service manager may be one. */
		.scoped = version >= 6 ? SIGNALS : 0,
	};
	/* An older kernel takes no more than it knows, except zeroes. */
	long fd = syscall(CREATE_RULESET, &ruleset, sizeof(ruleset), 0u);

	return fd < 0 ? -errno : (int)fd;
}

static uint64_t
accesses_of(enum grant_use use)
{
	uint64_t accesses = READ_FILE | READ_DIR;

	if (use == GRANT_ASK)
		return IOCTL_DEV;
	if (use == GRANT_NAMES)
		return MAKE_SOCK | REMOVE_FILE;
	if (use >= GRANT_WRITE)
		accesses |= WRITE_FILE | TRUNCATE | IOCTL_DEV;
	if (use >= GRANT_CHANGE)
		accesses |= REMOVE_FILE | MAKE_REG;
	return accesses;
}

int
landlock_add(int list, int version, const char *path, enum grant_use use)
{
	int CLEANUP_CLOSE fd = open(path, O_PATH | O_CLOEXEC);
	struct beneath rule = {.allowed = accesses_of(use) & known_accesses(version), .parent = fd};
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : -errno;
	if (!S_ISDIR(st.st_mode))
		rule.allowed &= OF_FILES;
	if (!rule.allowed)
		return 0;
	/* No device, for instance, is in the kernel's own file systems. */
	if (syscall(ADD_RULE, list, RULE_BENEATH, &rule, 0u) < 0)
		return errno == EBADFD ? 0 : -errno;
	return 0;
}

int
landlock_enter(int list)
{
	return syscall(RESTRICT_SELF, list, 0u) < 0 ? -errno : 0;
}
