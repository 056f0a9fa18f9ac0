/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/engine/lock_fixture.h"

#include "tests/unit/scratch_file.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

const struct lock_part whole = {0, UINT64_MAX};

static int file;

const struct pair_row pair_rows[PAIR_ROWS] = {
	{"a guest's drive", READ | WRITE | RESIZE, READ | UNCHANGED, false, false, false},
	{"a guest's drive with share-rw", READ | WRITE, READ | WRITE | UNCHANGED | RESIZE, false,
	 true, false},
	{"a guest's read-only drive", READ, READ | UNCHANGED, false, false, true},
	{"qemu-img info", READ, READ | UNCHANGED, false, false, true},
	{"qemu-img info -U", READ, ALL, true, true, true},
	{"one who wants no reader", READ, 0, false, false, false},
	{"an exclusive writer of ours", READ | WRITE, READ | UNCHANGED, false, false, false},
	{"a shared writer of ours", READ | WRITE, ALL, false, true, false},
	{"a reader of ours", READ, READ | UNCHANGED, false, false, true},
	{"a process without a lock", 0, ALL, true, true, true},
};

void
lock_begin(void)
{
	file = scratch_memory_file(4096);
}

void
lock_end(void)
{
	close(file);
}

int
reopen(int flags)
{
	char path[SCRATCH_PATH];
	int fd = open(scratch_path(file, path), flags | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	return fd;
}

/* Also finds the locks of this process under other descriptions. */
unsigned int
locked_bytes(int fd, off_t base)
{
	unsigned int found = 0;

	for (unsigned int i = 0; i < 8; i++) {
		struct flock lock = {
			.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = base + i, .l_len = 1};

		ck_assert_int_eq(fcntl(fd, F_OFD_GETLK, &lock), 0);
		found |= lock.l_type != F_UNLCK ? 1u << i : 0;
	}
	return found;
}

void
assert_locked(unsigned int held, unsigned int unshared)
{
	int fd = reopen(O_RDWR);

	ck_assert_uint_eq(locked_bytes(fd, HELD), held);
	ck_assert_uint_eq(locked_bytes(fd, UNSHARED), unshared);
	close(fd);
}

/* ---- Another process */

static void
lock_as_qemu(int fd, off_t base, unsigned int bytes)
{
	for (unsigned int i = 0; i < 4; i++) {
		struct flock lock = {
			.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = base + i, .l_len = 1};

		if (bytes & (1u << i) && fcntl(fd, F_OFD_SETLK, &lock) < 0)
			_exit(1);
	}
}

static void
lock_as_server(int fd, enum lock_choice choice, const struct lock_part *part, bool writable)
{
	char *error = NULL;

	if (lock_take(fd, "disk.img", choice, part, writable, false, &error) < 0)
		_exit(1);
}

/* Starts a process that locks the file: as nbdloopd does, if `part` is given, else as QEMU does. */
static pid_t
process_start(const struct lock_part *part, enum lock_choice choice, bool writable,
	      unsigned int may, unsigned int lets)
{
	int ready[2];
	char byte;
	pid_t pid;

	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		char path[SCRATCH_PATH];
		int fd = open(scratch_path(file, path), O_RDWR);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (part) {
			lock_as_server(fd, choice, part, writable);
		} else {
			lock_as_qemu(fd, HELD, may);
			lock_as_qemu(fd, UNSHARED, ALL & ~lets);
		}
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

pid_t
holder_start(unsigned int may, unsigned int lets)
{
	return process_start(NULL, LOCK_OFF, false, may, lets);
}

pid_t
server_start(const struct lock_part *part, enum lock_choice choice, bool writable)
{
	return process_start(part, choice, writable, 0, 0);
}

void
holder_end(pid_t pid)
{
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
