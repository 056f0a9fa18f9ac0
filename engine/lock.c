/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/lock.h"

#include "common/cleanup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* QEMU's bytes and permissions. */
#define HELD_BASE 100
#define UNSHARED_BASE 200
#define PERMISSIONS 4
enum {
	CONSISTENT_READ = 1,
	WRITE = 2,
	WRITE_UNCHANGED = 4,
	RESIZE = 8,
};

/* What we want, and what nobody else may have meanwhile. */
struct claim {
	unsigned int held;
	unsigned int unshared;
};

static enum lock_choice
resolve(enum lock_choice choice, bool writable)
{
	if (choice != LOCK_AUTO)
		return choice;
	return writable ? LOCK_EXCLUSIVE : LOCK_SHARED;
}

const char *
lock_name(enum lock_choice choice, bool writable)
{
	switch (resolve(choice, writable)) {
	case LOCK_OFF:
		return "off";
	case LOCK_SHARED:
		return "shared";
	default:
		return "exclusive";
	}
}

static struct claim
claim_for(enum lock_choice choice, bool writable)
{
	struct claim claim = {CONSISTENT_READ, WRITE | RESIZE};

	if (writable)
		claim.held |= WRITE;
	if (writable && choice == LOCK_SHARED)
		claim.unshared = 0;
	return claim;
}

static int
lock_byte(int fd, int command, short type, off_t byte, struct flock *answer)
{
	*answer = (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
	return fcntl(fd, command, answer) < 0 ? -errno : 0;
}

static int
set_bytes(int fd, short type, off_t base, unsigned int permissions)
{
	for (unsigned int i = 0; i < PERMISSIONS; i++) {
		struct flock answer;
		int r = permissions & (1u << i) ? lock_byte(fd, F_OFD_SETLK, type, base + i, &answer) : 0;

		if (r < 0)
			return r;
	}
	return 0;
}

/* Whether somebody else holds one of those bytes. A write lock is asked for because it conflicts with
 * everybody's read locks; our own are of the same open file description and don't. */
static int
check_bytes(int fd, off_t base, unsigned int permissions)
{
	for (unsigned int i = 0; i < PERMISSIONS; i++) {
		struct flock answer;
		int r;

		if (!(permissions & (1u << i)))
			continue;
		r = lock_byte(fd, F_OFD_GETLK, F_WRLCK, base + i, &answer);
		if (r < 0)
			return r;
		if (answer.l_type != F_UNLCK)
			return -EAGAIN;
	}
	return 0;
}

void
lock_drop(int fd)
{
	set_bytes(fd, F_UNLCK, HELD_BASE, ~0u);
	set_bytes(fd, F_UNLCK, UNSHARED_BASE, ~0u);
}

/* Whether an open file of a process, by its /proc/PID/fdinfo/N, holds an OFD lock on that inode:
 * "lock:	1: OFDLCK ADVISORY READ 4711 fe:00:1234 100 100". */
static bool
holds_lock(const char *path, const struct stat *st)
{
	char line[256], device[64];
	bool found = false;
	FILE *f = fopen(path, "re");

	if (!f)
		return false;
	snprintf(device, sizeof(device), " %02x:%02x:%llu ", major(st->st_dev), minor(st->st_dev),
		 (unsigned long long)st->st_ino);
	while (!found && fgets(line, sizeof(line), f))
		found = strncmp(line, "lock:", 5) == 0 && strstr(line, "OFDLCK") && strstr(line, device);
	fclose(f);
	return found;
}

static bool
process_holds_lock(const char *pid, const struct stat *st)
{
	char path[PATH_MAX];
	bool found = false;
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%s/fdinfo", pid);
	dir = opendir(path);
	if (!dir)
		return false;
	while (!found && (entry = readdir(dir)) != NULL) {
		snprintf(path, sizeof(path), "/proc/%s/fdinfo/%s", pid, entry->d_name);
		found = holds_lock(path, st);
	}
	closedir(dir);
	return found;
}

/* An OFD lock doesn't tell its owner's process: we look for it where we may look. */
static bool
find_holder(int fd, char holder[64])
{
	char comm[32] = "", path[64];
	struct dirent *entry;
	struct stat st;
	DIR *dir = opendir("/proc");
	long self = (long)getpid();
	bool found = false;

	snprintf(holder, 64, "another program");
	if (!dir)
		return false;
	while (!found && fstat(fd, &st) == 0 && (entry = readdir(dir)) != NULL) {
		long pid = strtol(entry->d_name, NULL, 10);
		FILE *f;

		if (pid <= 0 || pid == self || !process_holds_lock(entry->d_name, &st))
			continue;
		found = true;
		snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
		f = fopen(path, "re");
		if (f && fgets(comm, sizeof(comm), f))
			comm[strcspn(comm, "\n")] = '\0';
		if (f)
			fclose(f);
		snprintf(holder, 64, "process %ld (%s)", pid, comm);
	}
	closedir(dir);
	return found;
}

static int
explain(int err, int fd, const char *path, const char *name, char **error)
{
	char holder[64];
	int r;

	if (err == -EAGAIN) {
		find_holder(fd, holder);
		r = asprintf(error,
			     "%s: no %s lock, because %s is using the image; stop it, or use %slock=off "
			     "if you know that both can use it at once",
			     path, name, holder, strcmp(name, "shared") == 0 ? "" : "lock=shared or ");
	} else {
		r = asprintf(error, "%s: no %s lock: %s; lock=off serves it without one", path, name,
			     strerror(-err));
	}
	if (r < 0)
		*error = NULL;
	return err;
}

static int
check_claim(int fd, const struct claim *claim)
{
	int r = check_bytes(fd, UNSHARED_BASE, claim->held);

	return r < 0 ? r : check_bytes(fd, HELD_BASE, claim->unshared);
}

/* How long the kernel may take to finish the I/O of a server that was killed. */
#define LINGER_MS 5000
#define LINGER_STEP_MS 20

/*
 * A server that was killed keeps its locks until the last of its requests is done and its rings are gone,
 * a moment after the process itself: until then an old write could still land.  So a lock that no
 * process holds is waited for.
 */
static int
check_claim_patiently(int fd, const struct claim *claim)
{
	int r = check_claim(fd, claim);
	char holder[64];

	for (int waited = 0; r == -EAGAIN && waited < LINGER_MS && !find_holder(fd, holder);
	     waited += LINGER_STEP_MS) {
		usleep(LINGER_STEP_MS * 1000);
		r = check_claim(fd, claim);
	}
	return r;
}

int
lock_check(int fd, const char *path, enum lock_choice choice, bool writable, char **error)
{
	enum lock_choice resolved = resolve(choice, writable);
	const struct claim claim = claim_for(resolved, writable);
	int r;

	if (resolved == LOCK_OFF)
		return 0;
	r = check_claim_patiently(fd, &claim);
	return r < 0 ? explain(r, fd, path, lock_name(choice, writable), error) : 0;
}

/* First take, then look: of two programs that start together, at least one sees the other. */
int
lock_take(int fd, const char *path, enum lock_choice choice, bool writable, char **error)
{
	enum lock_choice resolved = resolve(choice, writable);
	const struct claim claim = claim_for(resolved, writable);
	int r;

	if (resolved == LOCK_OFF)
		return 0;
	r = set_bytes(fd, F_RDLCK, HELD_BASE, claim.held);
	if (r == 0)
		r = set_bytes(fd, F_RDLCK, UNSHARED_BASE, claim.unshared);
	if (r == 0)
		r = check_claim_patiently(fd, &claim);
	if (r == 0) {
		/* Of a lock that was taken before: a reader lets nobody write, a shared writer does. */
		set_bytes(fd, F_UNLCK, HELD_BASE, ~claim.held);
		set_bytes(fd, F_UNLCK, UNSHARED_BASE, ~claim.unshared);
		return 0;
	}
	lock_drop(fd);
	return explain(r, fd, path, lock_name(choice, writable), error);
}
