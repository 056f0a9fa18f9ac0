/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/engine/record_fixture.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "engine/changes/boot.h"
#include "tests/unit/engine/changed_run.h"
#include "tests/unit/log_capture.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SECTOR   512u
#define UNDO_MAX 512

struct told *told;
const char *const names[3] = {"a", "b", "c"};

enum fault fault;
unsigned int fault_at;
bool blocks_only;
uint32_t chance;
struct fake_image disk;
struct checkpoints *set;
char path[64];
struct stat record_facts;

int sync_error, read_error, header_error, record_error;
bool first_header_only;
void (*at_sync)(void);
void (*at_record_sync)(void);
void (*at_block)(void);
void (*at_header)(void);

/* ---- the run of the kernel */

const char *kernel = "first";
int64_t age = INT64_C(1) << 60;

/* The clocks stand still, later than any change of a file in the test: how long its machine takes
 * doesn't matter. */
static int64_t now;

void
boot_id(char *id, size_t size)
{
	snprintf(id, size, "%s", kernel);
}

void
boot_clocks(int64_t *real, int64_t *since_boot)
{
	*real = now;
	*since_boot = age;
}

/* ---- what a power cut loses */

static struct undo {
	uint64_t offset;
	size_t size;
	uint8_t old[65536];
} * undo;
static unsigned int undo_count;

static void
note_old(int fd, size_t size, uint64_t offset)
{
	struct undo *one = &undo[undo_count++];

	ck_assert(undo_count < UNDO_MAX && size <= sizeof(one->old));
	*one = (struct undo){.offset = offset, .size = size};
	/* Not by pread(), which may be about to fail. */
	if (preadv(fd, &(struct iovec){one->old, size}, 1, (off_t)offset) < 0)
		abort();
}

static bool
is_lost(uint64_t offset)
{
	if (blocks_only)
		return offset >= RECORD_BLOCKS_AT;
	if (chance)
		chance = chance * 1103515245u + 12345u;
	return !chance || chance >> 16 & 1;
}

/* Each sector gets one of the contents that it had since the last sync. */
static void
lose(int fd)
{
	while (undo_count > 0) {
		struct undo *one = &undo[--undo_count];

		for (size_t at = 0; at < one->size; at += SECTOR) {
			struct iovec part = {one->old + at, SECTOR};

			if (is_lost(one->offset) &&
			    pwritev(fd, &part, 1, (off_t)(one->offset + at)) != SECTOR)
				abort();
		}
	}
}

/* ---- the calls */

static bool
is_record(int fd)
{
	struct stat facts;

	if (fd < 0 || fstat(fd, &facts) < 0 || facts.st_ino == 0)
		return false;
	if (!record_facts.st_ino && stat(path, &record_facts) < 0)
		return false;
	return facts.st_ino == record_facts.st_ino && facts.st_dev == record_facts.st_dev;
}

/* A power cut takes from the image what was not synced, which changes it. */
static void
lose_dirty(void)
{
	for (unsigned int i = 0; i < 3; i++) {
		for (unsigned int n = 0; n < GRANULES && told->of[i].begun; n++)
			told->of[i].must[n] |= told->dirty[n];
	}
}

/* Returns whether the call is to fail. */
static bool
meet_fault(int fd)
{
	told->calls++;
	if (fault == NONE || told->calls < fault_at)
		return false;
	if (fault == CUT) {
		lose(fd);
		lose_dirty();
	}
	if (fault != NO_SPACE)
		raise(SIGKILL);
	errno = ENOSPC;
	return true;
}

/* The image has these bytes from now on. */
static void
note_reached(size_t size, uint64_t offset)
{
	for (uint64_t granule = offset / GRANULE; granule <= (offset + size - 1) / GRANULE;
	     granule++) {
		told->dirty[granule] = true;
		for (unsigned int i = 0; i < 3; i++)
			told->of[i].must[granule] |= told->of[i].begun;
	}
}

ssize_t
pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
	struct iovec part = {(void *)(uintptr_t)bytes, size};

	if (at_block && is_record(fd) && offset >= (off_t)RECORD_BLOCKS_AT)
		steal_pointer (&at_block)();
	if (at_header && is_record(fd) && offset < (off_t)RECORD_BLOCKS_AT)
		steal_pointer (&at_header)();
	if (is_record(fd)) {
		if (meet_fault(fd))
			return -1;
		note_old(fd, size, (uint64_t)offset);
	} else if (told && disk.image && fd == disk.image->backing.fd) {
		note_reached(size, (uint64_t)offset);
	}
	return pwritev(fd, &part, 1, offset);
}

/* The record has its marks behind its headers. */
ssize_t
pread(int fd, void *bytes, size_t size, off_t offset)
{
	struct iovec part = {bytes, size};
	int error = offset >= (off_t)RECORD_BLOCKS_AT ? read_error : header_error;

	if (first_header_only && offset >= (off_t)RECORD_HEADER_SIZE)
		error = 0;
	if (error && is_record(fd)) {
		errno = error;
		return -1;
	}
	return preadv(fd, &part, 1, offset);
}

int
fdatasync(int fd)
{
	if (is_record(fd)) {
		if (at_record_sync)
			at_record_sync();
		if (meet_fault(fd))
			return -1;
		undo_count = 0;
		errno = record_error;
		record_error = 0;
		return errno ? -1 : 0;
	}
	return 0;
}

/* The test is about what was called, not about this machine's disk. */
int
fsync(int fd)
{
	if (!told || !disk.image || fd != disk.image->backing.fd)
		return 0;
	if (at_sync)
		at_sync();
	errno = sync_error;
	if (sync_error)
		return -1;
	memset(told->dirty, 0, sizeof(told->dirty));
	return 0;
}
/* ---- the set and its image */

void
begin_test(void)
{
	log_capture_begin();
	now = (int64_t)(clock_ns(CLOCK_REALTIME) + 3600 * NS_PER_SECOND);
	snprintf(path, sizeof(path), "check_record.%d.changes", (int)getpid());
	told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(told, MAP_FAILED);
	undo = calloc(UNDO_MAX, sizeof(*undo));
	ck_assert_ptr_nonnull(undo);
	fake_image_open(&disk, &(struct fake_facts){.file_size = SIZE, .empty = true});
}

void
end_test(void)
{
	unlink(path);
	fake_image_close(&disk);
	disk.image = NULL;
	munmap(told, sizeof(*told));
	told = NULL;
	free(undo);
	log_capture_end();
}

void
open_set(void)
{
	set = checkpoints_new(disk.image);
	ck_assert_ptr_nonnull(set);
	ck_assert_int_eq(checkpoints_keep(set, path, geteuid()), 0);
}

void
change(enum io_op op, uint64_t granule, uint64_t granules)
{
	static unsigned char *bytes;

	if (!bytes)
		bytes = buffer_new(MIB, 0);
	for (uint64_t n = granule; n < granule + granules; n++) {
		told->touched[n] = true;
		for (unsigned int i = 0; i < 3; i++)
			told->of[i].may[n] |= told->of[i].asked;
	}
	ck_assert_int_eq(
		test_io_execute(disk.ctx, op, 0, granule * GRANULE, granules * GRANULE, bytes), 0);
}

int
begin(unsigned int i)
{
	char *error;
	int r;

	told->of[i].asked = true;
	r = checkpoints_begin(&set, 1, names[i], GRANULE, &error);
	free(error);
	told->of[i].begun = r == 0;
	return r;
}

void
end(unsigned int i)
{
	char *error;

	told->of[i].ending = true;
	checkpoints_end(&set, 1, names[i], &error);
	free(error);
}

/* ---- the judgement */

struct checkpoint *
hold(const char *name)
{
	struct checkpoint_facts facts;

	for (size_t n = 0; checkpoints_at(set, n, &facts); n++) {
		if (strcmp(facts.name, name) == 0)
			return checkpoint_hold(set, facts.id);
	}
	return NULL;
}

/* Whether the scenario has asked for a change in the region. */
static bool
is_used(uint64_t granule)
{
	uint64_t first = granule * GRANULE / REGION * (REGION / GRANULE);

	for (uint64_t n = first; n < first + REGION / GRANULE; n++) {
		if (told->touched[n])
			return true;
	}
	return false;
}

void
judge(bool regions, unsigned int at)
{
	char reason[REASON_MAX];

	ck_assert_msg(!checkpoints_problem(set, reason), "call %u: %s", at, reason);
	for (unsigned int i = 0; i < 3; i++) {
		struct checkpoint *checkpoint = hold(names[i]);

		ck_assert_msg(checkpoint || !told->of[i].begun || told->of[i].ending,
			      "call %u: the checkpoint %s is lost", at, names[i]);
		for (uint64_t n = 0, next; checkpoint && n < GRANULES; n++) {
			bool marked =
				changed_run(checkpoint, n * GRANULE, n * GRANULE + 1, &next) == 1;

			/* Each assertion is a message to the process that counts them. */
			if (!marked && told->of[i].must[n])
				ck_abort_msg("call %u: %s misses granule %u", at, names[i],
					     (unsigned int)n);
			if (marked && !told->of[i].may[n] && !(regions && is_used(n)))
				ck_abort_msg("call %u: %s has granule %u", at, names[i],
					     (unsigned int)n);
		}
		if (checkpoint)
			checkpoint_release(checkpoint);
	}
}

/* ---- for several suites */

void
forget_failure(void)
{
	sync_error = 0;
	atomic_store(&disk.image->shared->sync_failure, 0);
}

bool
read_header(unsigned int which, struct record_header *header)
{
	uint8_t bytes[RECORD_HEADER_SIZE];
	char *CLEANUP_FREE error = NULL;
	int CLEANUP_CLOSE fd = open(path, O_RDONLY);

	return fd >= 0 &&
	       pread(fd, bytes, sizeof(bytes), (off_t)(which * sizeof(bytes))) == sizeof(bytes) &&
	       record_header_decode(header, bytes, &error) == 0;
}

void
expect_unknown(const char *part)
{
	char reason[REASON_MAX];

	ck_assert(checkpoints_problem(set, reason));
	ck_assert_msg(strstr(reason, part) != NULL, "%s", reason);
	checkpoints_free(set);
}

void
set_times(void)
{
	static time_t time = 1;
	const struct timespec times[2] = {{.tv_sec = time}, {.tv_sec = time}};

	time++;
	ck_assert_int_eq(futimens(disk.image->backing.fd, times), 0);
}
