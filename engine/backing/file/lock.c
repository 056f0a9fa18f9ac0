/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/file/lock.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/error.h"
#include "common/image_lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* Sets of permissions. */
enum {
	CONSISTENT_READ = 1 << IMAGE_LOCK_CONSISTENT_READ,
	WRITE = 1 << IMAGE_LOCK_WRITE,
	WRITE_UNCHANGED = 1 << IMAGE_LOCK_WRITE_UNCHANGED,
	RESIZE = 1 << IMAGE_LOCK_RESIZE,
};

/*
 * A server of a part of an image locks the same bytes, which keeps QEMU and servers of the whole
 * image away. But it locks them in one piece with further bytes, which have no meaning to the
 * others. Servers of parts recognize each other by the start of such a piece, and then compare
 * their ranges.
 */
#define MARKED_HELD         50
#define MARKED_UNSHARED     201
#define MARKED_UNSHARED_END 300

/* The byte of lock_take_along(). Nobody looks for a lock there. */
#define ALONG 300

/* Offsets of the range locks: of servers that write, and of servers that let no other server write.
 * They lie after every byte of an image, or nearly every byte. */
#define WRITERS_BASE ((off_t)1 << 61)
#define KEEPERS_BASE ((off_t)1 << 62)

/* The permissions that we want, and those that no other program may have at the same time. */
struct claim {
	unsigned int held;
	unsigned int unshared;
	bool part; /* claims only a part of the image, from `start` up to but not including `end` */
	off_t start, end; /* in bytes */
};

/* For a search: a lock may start anywhere. */
#define ANY (-1)

/* Size of the longest text about the holder of a lock, in bytes, with its NUL. */
#define LOCK_HOLDER 64

static struct claim
claim_for(enum lock_choice choice, const struct lock_part *part, bool writable)
{
	const struct lock_part pages = backing_part_pages(part);
	struct claim claim = {.held = CONSISTENT_READ, .unshared = WRITE | RESIZE};

	if (writable)
		claim.held |= WRITE;
	if (writable && choice == LOCK_SHARED)
		claim.unshared = 0;
	claim.part = part->start > 0 || part->end < UINT64_MAX;
	claim.start = (off_t)pages.start;
	claim.end = (off_t)pages.end;
	return claim;
}

static int
lock_range(int fd, int command, short type, off_t start, off_t end, struct flock *answer)
{
	*answer = (struct flock){
		.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = end - start};
	return fcntl(fd, command, answer) < 0 ? -errno : 0;
}

static int
set_range(int fd, short type, off_t start, off_t end)
{
	struct flock answer;

	return lock_range(fd, F_OFD_SETLK, type, start, end, &answer);
}

static int
set_bytes(int fd, short type, off_t base, unsigned int permissions)
{
	for (unsigned int i = 0; i < IMAGE_LOCK_PERMISSIONS; i++) {
		int r = permissions & (1u << i) ? set_range(fd, type, base + i, base + i + 1) : 0;

		if (r < 0)
			return r;
	}
	return 0;
}

static bool
is_marked(off_t start, off_t end)
{
	return start == MARKED_HELD || (start == MARKED_UNSHARED && end == MARKED_UNSHARED_END);
}

/* ---- holders of locks */

/* Finds the name that the kernel uses in its lists of locks for the file of a descriptor that has a
 * lock, such as "fe:00:1234". On some file systems, the number there is not the one of stat(). */
static bool
file_in_lists(int fd, char name[64])
{
	char path[64], line[256];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f))
		found = sscanf(line, "lock: %*d: OFDLCK %*s %*s %*d %63s", name) == 1;
	fclose(f);
	return found;
}

/* Returns whether a line such as "1: OFDLCK ADVISORY READ -1 fe:00:1234 100 101" is a lock on that
 * byte of that file that is not marked. Sets *marked to whether it is such a lock, but marked. */
static bool
is_stranger(const char *line, const char *file, off_t byte, bool *marked)
{
	char kind[16], name[64], last[32];
	long long start, end;

	*marked = false;
	if (sscanf(line, "%*d: %15s %*s %*s %*d %63s %lld %31s", kind, name, &start, last) != 4 ||
	    strcmp(name, file) != 0 || (strcmp(kind, "OFDLCK") != 0 && strcmp(kind, "POSIX") != 0))
		return false;
	end = strcmp(last, "EOF") == 0 ? LLONG_MAX : strtoll(last, NULL, 10);
	if (byte < start || byte > end)
		return false;
	*marked = is_marked((off_t)start, (off_t)end + 1);
	return !*marked;
}

/*
 * If several locks are in the way, the kernel reports only one. If that one is marked, a part is
 * free only if the others are marked as well, so we look at all of them. If the list can't be read,
 * we assume that they are not.
 */
static bool
only_marked(int fd, off_t byte, off_t *start)
{
	char file[64], line[256];
	bool marked, all = true, some = false;
	FILE *f;

	if (!file_in_lists(fd, file))
		return false;
	f = fopen("/proc/locks", "re");
	if (!f)
		return false;
	while (all && fgets(line, sizeof(line), f)) {
		all = !is_stranger(line, file, byte, &marked);
		some = some || marked;
	}
	fclose(f);
	if (!all)
		*start = ANY;
	return all && some;
}

/* ---- checks */

/*
 * Returns 0, or -EAGAIN if another program holds a lock on one of those bytes; *start is then where
 * that lock begins. It asks for a write lock, because that conflicts with everybody's read locks,
 * but not with our own, which belong to the same open file description.
 */
static int
check_bytes(int fd, const struct claim *claim, off_t base, unsigned int permissions, bool taken,
	    off_t *start)
{
	for (unsigned int i = 0; i < IMAGE_LOCK_PERMISSIONS; i++) {
		struct flock answer;
		int r;

		if (!(permissions & (1u << i)))
			continue;
		r = lock_range(fd, F_OFD_GETLK, F_WRLCK, base + i, base + i + 1, &answer);
		if (r < 0)
			return r;
		if (answer.l_type == F_UNLCK)
			continue;
		*start = answer.l_start;
		/* The list may change while we read it: the second reading finds a lock that the
		 * first one missed. */
		if (!claim->part || !is_marked(answer.l_start, answer.l_start + answer.l_len) ||
		    (taken &&
		     !(only_marked(fd, base + i, start) && only_marked(fd, base + i, start))))
			return -EAGAIN;
	}
	return 0;
}

static int
check_range(int fd, off_t base, const struct claim *claim, off_t *start)
{
	struct flock answer;
	int r = lock_range(fd, F_OFD_GETLK, F_WRLCK, base + claim->start, base + claim->end,
			   &answer);

	*start = answer.l_start;
	return r < 0 || answer.l_type == F_UNLCK ? r : -EAGAIN;
}

void
lock_drop(int fd)
{
	set_range(fd, F_UNLCK, 0, 0);
}

/* Returns whether an open file of a process (`path` is /proc/PID/fdinfo/N) holds an OFD lock on
 * that inode that begins at `start`. The line is "lock: 1: OFDLCK ADVISORY READ 4711 fe:00:1234 100
 * 100". */
static bool
holds_lock(const char *path, const struct stat *st, off_t start)
{
	char line[256], device[64];
	bool found = false;
	FILE *f = fopen(path, "re");

	if (!f)
		return false;
	snprintf(device, sizeof(device), " %02x:%02x:%llu ", major(st->st_dev), minor(st->st_dev),
		 (unsigned long long)st->st_ino);
	while (!found && fgets(line, sizeof(line), f)) {
		const char *at = strncmp(line, "lock:", 5) == 0 && strstr(line, "OFDLCK")
					 ? strstr(line, device)
					 : NULL;

		found = at && (start == ANY || strtoll(at + strlen(device), NULL, 10) == start);
	}
	fclose(f);
	return found;
}

static bool
process_holds_lock(const char *pid, const struct stat *st, off_t start)
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
		found = holds_lock(path, st, start);
	}
	closedir(dir);
	return found;
}

/* Finds a process with such a lock. An OFD lock does not tell its owner's process, so we look
 * through all processes that we may look at. */
static bool
find_holder(int fd, off_t start, bool self, char holder[LOCK_HOLDER])
{
	char comm[32] = "", path[64];
	struct dirent *entry;
	struct stat st;
	DIR *dir = opendir("/proc");
	bool found = false;

	snprintf(holder, LOCK_HOLDER, "another program");
	if (!dir)
		return false;
	while (!found && fstat(fd, &st) == 0 && (entry = readdir(dir)) != NULL) {
		long pid = strtol(entry->d_name, NULL, 10);
		FILE *f;

		if (pid <= 0 || (!self && pid == (long)getpid()) ||
		    !process_holds_lock(entry->d_name, &st, start))
			continue;
		found = true;
		snprintf(path, sizeof(path), "/proc/%ld/comm", pid);
		f = fopen(path, "re");
		if (f && fgets(comm, sizeof(comm), f))
			comm[strcspn(comm, "\n")] = '\0';
		if (f)
			fclose(f);
		snprintf(holder, LOCK_HOLDER, "process %ld (%s)", pid, comm);
	}
	closedir(dir);
	return found;
}

bool
lock_is_held(int fd)
{
	char ignored[LOCK_HOLDER];

	return find_holder(fd, ANY, true, ignored);
}

static int
lock_explain(int err, int fd, off_t start, const char *path, const char *name, char **error)
{
	char holder[LOCK_HOLDER];

	if (err != -EAGAIN)
		return error_set(error, err, "%s: no %s lock: %s; lock=off serves it without one",
				 path, name, strerror(-err));
	find_holder(fd, start, false, holder);
	return error_set(
		error, err,
		"%s: no %s lock, because %s is using the image; stop it, or use %slock=off "
		"if you know that both can use it at once",
		path, name, holder, strcmp(name, "shared") == 0 ? "" : "lock=shared or ");
}

/* Checks for locks that conflict with the claim. `taken`: we already hold the claim's locks.
 * *start: where the conflicting lock begins. */
static int
check_claim(int fd, const struct claim *claim, bool taken, off_t *start)
{
	int r = check_bytes(fd, claim, IMAGE_LOCK_UNSHARED, claim->held, taken, start);

	if (r == 0)
		r = check_bytes(fd, claim, IMAGE_LOCK_HELD, claim->unshared, taken, start);
	if (r == 0 && claim->part && claim->held & WRITE)
		r = check_range(fd, KEEPERS_BASE, claim, start);
	if (r == 0 && claim->part && claim->unshared & WRITE)
		r = check_range(fd, WRITERS_BASE, claim, start);
	return r;
}

/*
 * A killed server keeps its locks until its last request is complete and its rings are gone, a
 * moment after the process itself; until then, an old write could still reach the file. So we wait
 * for a lock that no process holds.
 */
static int
check_claim_patiently(int fd, const struct claim *claim, bool taken, off_t *start)
{
	int64_t end = clock_ms(CLOCK_MONOTONIC) + LOCK_LINGER_MS;
	int r = check_claim(fd, claim, taken, start);
	char holder[LOCK_HOLDER];

	while (r == -EAGAIN && clock_ms(CLOCK_MONOTONIC) < end &&
	       !find_holder(fd, *start, false, holder)) {
		usleep(LOCK_LINGER_STEP_MS * 1000);
		r = check_claim(fd, claim, taken, start);
	}
	return r;
}

int
lock_check(int fd, const char *path, enum lock_choice choice, const struct lock_part *part,
	   bool writable, char **error)
{
	enum lock_choice resolved = lock_resolve(choice, writable);
	const struct claim claim = claim_for(resolved, part, writable);
	off_t start = ANY;
	int r;

	if (resolved == LOCK_OFF)
		return 0;
	r = check_claim_patiently(fd, &claim, false, &start);
	return r < 0 ? lock_explain(r, fd, start, path, lock_resolved_name(choice, writable), error)
		     : 0;
}

static int
take_bytes(int fd, const struct claim *claim)
{
	int r;

	if (!claim->part) {
		r = set_bytes(fd, F_RDLCK, IMAGE_LOCK_HELD, claim->held);
		return r < 0 ? r : set_bytes(fd, F_RDLCK, IMAGE_LOCK_UNSHARED, claim->unshared);
	}
	/* The bytes of the permissions are adjacent, so one lock covers them. */
	r = set_range(fd, F_RDLCK, MARKED_HELD, IMAGE_LOCK_HELD + (claim->held & WRITE ? 2 : 1));
	if (r == 0 && claim->unshared)
		r = set_range(fd, F_RDLCK, MARKED_UNSHARED, MARKED_UNSHARED_END);
	if (r == 0 && claim->held & WRITE)
		r = set_range(fd, F_RDLCK, WRITERS_BASE + claim->start, WRITERS_BASE + claim->end);
	if (r == 0 && claim->unshared)
		r = set_range(fd, F_RDLCK, KEEPERS_BASE + claim->start, KEEPERS_BASE + claim->end);
	return r;
}

/* Releases the locks that a writer has and `claim`, which is of the same part, does not need. */
static void
keep_claim(int fd, const struct claim *claim)
{
	set_bytes(fd, F_UNLCK, IMAGE_LOCK_HELD, ~claim->held);
	if (!(claim->held & WRITE))
		set_range(fd, F_UNLCK, WRITERS_BASE, KEEPERS_BASE);
	if (claim->unshared)
		return;
	set_range(fd, F_UNLCK, IMAGE_LOCK_UNSHARED, MARKED_UNSHARED_END);
	set_range(fd, F_UNLCK, KEEPERS_BASE, KEEPERS_BASE + (off_t)BACKING_PART_END);
}

/* The lock of lock_take() without its message. *start: where the lock in the way begins. */
static int
lock_try(int fd, enum lock_choice choice, const struct lock_part *part, bool writable, bool locked,
	 off_t *start)
{
	const struct claim claim = claim_for(lock_resolve(choice, writable), part, writable),
			   reader = claim_for(lock_resolve(choice, false), part, false);
	int r;

	/* Takes the locks first and checks after that, so that of two programs that start together,
	 * at least one sees the other. */
	r = take_bytes(fd, &claim);
	if (r == 0)
		r = check_claim_patiently(fd, &claim, true, start);
	/* Releases the rest of an earlier lock: a reader lets no program write, but a shared writer
	 * does. */
	if (r == 0)
		keep_claim(fd, &claim);
	else if (locked)
		keep_claim(fd, &reader);
	else
		lock_drop(fd);
	return r;
}

int
lock_take(int fd, const char *path, enum lock_choice choice, const struct lock_part *part,
	  bool writable, bool locked, char **error)
{
	off_t start = ANY;
	int r;

	if (lock_resolve(choice, writable) == LOCK_OFF)
		return 0;
	r = lock_try(fd, choice, part, writable, locked, &start);
	return r < 0 ? lock_explain(r, fd, start, path, lock_resolved_name(choice, writable), error)
		     : 0;
}

int
lock_take_alone(int fd, const char *path, bool locked, char **error)
{
	static const struct lock_part whole = {0, UINT64_MAX};
	char holder[LOCK_HOLDER];
	off_t start = ANY;
	int r = lock_try(fd, LOCK_EXCLUSIVE, &whole, true, locked, &start);

	if (r == -EAGAIN) {
		find_holder(fd, start, false, holder);
		return error_set(error, r, "%s: %s is using it; stop it first", path, holder);
	}
	return r < 0 ? error_set(error, r, "%s: it can't be locked: %s", path, strerror(-r)) : 0;
}

bool
lock_is_free(int fd)
{
	static const struct lock_part whole = {0, UINT64_MAX};
	const struct claim claim = claim_for(LOCK_EXCLUSIVE, &whole, true);
	off_t start;

	return check_claim(fd, &claim, false, &start) != -EAGAIN;
}

int
lock_take_along(int fd, const char *path, enum lock_choice choice, bool writable, char **error)
{
	int r = lock_resolve(choice, writable) == LOCK_OFF
			? 0
			: set_range(fd, F_RDLCK, ALONG, ALONG + 1);

	return r < 0 ? lock_explain(r, fd, ALONG, path, lock_resolved_name(choice, writable), error)
		     : 0;
}
