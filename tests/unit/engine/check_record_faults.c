/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The record of checkpoints when its server is killed, the power fails, or its disk fails, at each
 * of its calls in turn: no changed granule may be missing. The test stands between the engine and
 * the system for the calls that change files.
 */
#include "engine/changes/checkpoint.h"

#include "common/cleanup.h"
#include "engine/changes/boot.h"
#include "engine/changes/checkpoints_state.h"
#include "engine/changes/recorder.h"
#include "tests/lib/suite.h"
#include "tests/unit/fake_image.h"
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
#include <sys/wait.h>
#include <unistd.h>

#define MIB      (UINT64_C(1) << 20)
#define GRANULE  (64 * UINT64_C(1024))
#define REGION   RECORD_REGION_MIN
#define SIZE     (3 * REGION)
#define GRANULES (SIZE / GRANULE)
#define SECTOR   512u
#define UNDO_MAX 512

/* What is to happen at a call. */
enum fault {
	NONE,
	KILL,     /* the process ends */
	CUT,      /* and what was not synced is lost, in part */
	NO_SPACE, /* this call and all later ones fail */
};

/* What a scenario, which runs in a process of its own, tells the test. */
static struct told {
	unsigned int calls;
	bool touched[GRANULES]; /* a client has asked for a change */
	struct {
		bool asked, begun, ending;
		bool must[GRANULES]; /* the image has changed since the checkpoint was there */
		bool may[GRANULES];  /* a client has asked for it after that */
	} of[3];
	bool dirty[GRANULES]; /* the image's disk lacks it */
} * told;

static const char *const names[] = {"a", "b", "c"};

static enum fault fault;
static unsigned int fault_at;
static bool blocks_only; /* a power cut loses blocks, and no headers */
static uint32_t chance;  /* state of the random choice of what a power cut loses; 0: all */
static struct fake_image disk;
static struct checkpoints *set;
static char path[64];            /* of the record */
static struct stat record_facts; /* of the record, once it is there */
static int sync_error;           /* errno of the image's syncs; 0: they succeed */
static int read_error;           /* errno of reading the record's marks; 0: it succeeds */

/* Called by each sync of the image, by each of the record, and by the next write of marks. */
static void (*at_sync)(void);
static void (*at_record_sync)(void);
static void (*at_block)(void);

/* ---- the run of the kernel */

static const char *kernel = "first";
static int64_t age = INT64_C(1) << 60;

void
boot_id(char *id, size_t size)
{
	snprintf(id, size, "%s", kernel);
}

int64_t
boot_age(void)
{
	return age;
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
	if (pread(fd, one->old, size, (off_t)offset) < 0)
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
	if (is_record(fd)) {
		if (meet_fault(fd))
			return -1;
		note_old(fd, size, (uint64_t)offset);
	} else if (told && disk.image && fd == disk.image->backing.fd) {
		note_reached(size, (uint64_t)offset);
	}
	return pwritev(fd, &part, 1, offset);
}

/* Of the marks, which the record has behind its headers. */
ssize_t
pread(int fd, void *bytes, size_t size, off_t offset)
{
	struct iovec part = {bytes, size};

	errno = read_error;
	return read_error && is_record(fd) && offset >= (off_t)RECORD_BLOCKS_AT
		       ? -1
		       : preadv(fd, &part, 1, offset);
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

/* ---- the scenario */

static void
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

static int
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

static void
end(unsigned int i)
{
	char *error;

	told->of[i].ending = true;
	checkpoints_end(&set, 1, names[i], &error);
	free(error);
}

static void
run_scenario(void)
{
	change(IO_WRITE, 600, 1); /* the only one in its region */
	begin(0);
	change(IO_WRITE, 0, 1);
	change(IO_WRITE, 3, 2);
	recorder_tick(set);
	begin(1);
	change(IO_WRITE, 0, 1);
	change(IO_ZERO, 250, 10); /* two regions */
	recorder_tick(set);
	recorder_tick(set);
	change(IO_WRITE, 7, 1); /* a region that was in use before */
	change(IO_WRITE, 7, 1);
	end(0);
	change(IO_DISCARD, 20, 3);
	begin(2);
	change(IO_WRITE, 0, 1);
	change(IO_WRITE, 200, 1);
	recorder_tick(set);
	checkpoints_free(set);
}

static void
open_set(void)
{
	set = checkpoints_new(disk.image);
	ck_assert_ptr_nonnull(set);
	ck_assert_int_eq(checkpoints_keep(set, path, geteuid()), 0);
}

/* Runs it in a process that may be killed, and returns whether it was not. */
static bool
run_with(enum fault what, unsigned int at)
{
	pid_t pid;
	int status;

	unlink(path);
	memset(told, 0, sizeof(*told));
	record_facts = (struct stat){.st_ino = 0};
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		fault = what;
		fault_at = at;
		open_set();
		run_scenario();
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) ? WEXITSTATUS(status) == 0 : WTERMSIG(status) == SIGKILL);
	ck_assert(WIFEXITED(status) || told->calls == at);
	return WIFEXITED(status);
}

/* ---- the judgement */

static struct checkpoint *
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

/* `regions`: whole regions may be too much. */
static void
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
				checkpoint_run(checkpoint, n * GRANULE, n * GRANULE + 1, &next);

			ck_assert_msg(marked || !told->of[i].must[n],
				      "call %u: %s misses granule %u", at, names[i],
				      (unsigned int)n);
			ck_assert_msg(!marked || told->of[i].may[n] || (regions && is_used(n)),
				      "call %u: %s has granule %u", at, names[i], (unsigned int)n);
		}
		if (checkpoint)
			checkpoint_release(checkpoint);
	}
}

/* In slow runs, under valgrind, only some of the calls are met. */
static unsigned int
step(void)
{
	const char *factor = getenv("NBDLOOP_TIME_FACTOR");

	return factor && atof(factor) > 2 ? 13 : 1;
}

static void
begin_test(void)
{
	log_capture_begin();
	snprintf(path, sizeof(path), "check_record_faults.%d.changes", (int)getpid());
	told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(told, MAP_FAILED);
	undo = calloc(UNDO_MAX, sizeof(*undo));
	ck_assert_ptr_nonnull(undo);
	fake_image_open(&disk, &(struct fake_facts){.file_size = SIZE});
}

static void
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

START_TEST(server_is_killed_at_each_call)
{
	bool whole = false;

	begin_test();
	for (unsigned int at = 1; !whole; at += step()) {
		whole = run_with(KILL, at);
		open_set();
		judge(false, at);
		checkpoints_free(set);
	}
	end_test();
}
END_TEST

/* _i: 0: all that was not synced is lost; 1: all but headers; else some sectors of it. */
START_TEST(power_fails_at_each_call)
{
	bool whole = false;

	begin_test();
	for (unsigned int at = 1; !whole; at += step()) {
		blocks_only = _i == 1;
		chance = (uint32_t)_i * 100 + (_i ? at : 0);
		kernel = "first";
		age = INT64_C(1) << 60;
		whole = run_with(CUT, at);
		kernel = "second";
		age = 0;
		open_set();
		judge(true, at);
		checkpoints_free(set);
	}
	end_test();
}
END_TEST

/* Clients get no error, and the checkpoints say that they are broken, now and later. */
START_TEST(disk_of_the_record_is_full_at_each_call)
{
	char reason[REASON_MAX];
	bool met = true;

	begin_test();
	for (unsigned int at = 1; met; at += step()) {
		ck_assert(run_with(NO_SPACE, at));
		met = told->calls >= at;
		open_set();
		for (unsigned int i = 0; i < 3; i++) {
			struct checkpoint *checkpoint = hold(names[i]);

			if (checkpoint && met)
				ck_assert_msg(checkpoint_is_unknown(checkpoint) ||
						      !checkpoints_problem(set, reason),
					      "call %u", at);
			if (checkpoint)
				checkpoint_release(checkpoint);
		}
		if (!checkpoints_problem(set, reason) && set->first)
			judge(false, at);
		checkpoints_free(set);
	}
	end_test();
}
END_TEST

/* ---- the image's disk */

/* As the end of the process does. */
static void
forget_failure(void)
{
	sync_error = 0;
	atomic_store(&disk.image->shared->sync_failure, 0);
}

/* Whether a server that starts now would find a checkpoint of that name. */
static bool
is_recorded(const char *name)
{
	uint8_t bytes[RECORD_HEADER_SIZE];
	struct record_header header;
	int fd = open(path, O_RDONLY);
	bool found = false;

	for (unsigned int i = 0; fd >= 0 && i < 2; i++) {
		char *error = NULL;

		if (pread(fd, bytes, sizeof(bytes), (off_t)(i * sizeof(bytes))) == sizeof(bytes) &&
		    record_header_decode(&header, bytes, &error) == 0) {
			for (uint32_t n = 0; n < header.count; n++)
				found |= strcmp(header.entries[n].name, name) == 0;
		}
		free(error);
	}
	if (fd >= 0)
		close(fd);
	return found;
}

/* At a sync of the image, after the moment of checkpoint "b". */
static bool synced;

static void
expect_no_record(void)
{
	struct checkpoint *begun = hold("b");

	if (!begun)
		return;
	checkpoint_release(begun);
	synced = true;
	recorder_tick(set);
	change(IO_WRITE, 9, 1);
	ck_assert(is_recorded("a"));
	ck_assert(!is_recorded("b"));
}

/* Else an acknowledged write before it, which a power cut takes back, is no change since it. */
START_TEST(checkpoint_is_recorded_when_the_image_is_durable)
{
	begin_test();
	unlink(path);
	open_set();
	ck_assert_int_eq(begin(0), 0);
	at_sync = expect_no_record;
	ck_assert_int_eq(begin(1), 0);
	at_sync = NULL;
	ck_assert(synced);
	ck_assert(is_recorded("b"));
	checkpoints_free(set);
	end_test();
}
END_TEST

/* Changes come between the moment and the sync, which fails; or it fails before. */
static void
fail_after_moment(void)
{
	struct checkpoint *begun = hold("b");

	sync_error = begun ? EIO : 0;
	if (begun)
		checkpoint_release(begun);
}

START_TEST(checkpoint_of_an_image_that_is_not_durable_fails)
{
	char *error;

	begin_test();
	unlink(path);
	open_set();
	ck_assert_int_eq(begin(0), 0);
	at_sync = fail_after_moment;
	ck_assert_int_eq(checkpoints_begin(&set, 1, "b", GRANULE, &error), -EIO);
	ck_assert_ptr_nonnull(strstr(error, "may be lost"));
	free(error);
	at_sync = NULL;
	sync_error = 0;
	ck_assert_ptr_null(hold("b"));
	ck_assert(!is_recorded("b"));
	ck_assert(is_recorded("a"));
	/* The kernel forgets a failure after it has told; the engine doesn't. */
	ck_assert_int_eq(begin(2), -EIO);
	ck_assert_ptr_null(hold("c"));
	checkpoints_free(set);
	end_test();
}
END_TEST

START_TEST(record_is_not_trusted_after_a_failed_sync_at_the_end)
{
	char reason[REASON_MAX];

	begin_test();
	unlink(path);
	open_set();
	ck_assert_int_eq(begin(0), 0);
	sync_error = EIO;
	checkpoints_free(set);
	forget_failure();
	open_set();
	ck_assert(checkpoints_problem(set, reason));
	ck_assert_ptr_nonnull(strstr(reason, "written back"));
	checkpoints_free(set);
	end_test();
}
END_TEST

/* Which the record must note, while it gets room for another checkpoint. */
static void
change_one(void)
{
	change(IO_WRITE, 11, 1);
}

START_TEST(changes_go_on_while_a_checkpoint_gets_room)
{
	begin_test();
	unlink(path);
	record_facts = (struct stat){.st_ino = 0};
	open_set();
	ck_assert_int_eq(begin(0), 0);
	at_block = change_one;
	ck_assert_int_eq(begin(1), 0);
	ck_assert_ptr_null(at_block);
	checkpoints_free(set);
	open_set();
	judge(false, 0);
	checkpoints_free(set);
	end_test();
}
END_TEST

/* ---- opening */

/* As a write of another program does; which time it sets doesn't matter. */
static void
set_times(void)
{
	static time_t time = 1;
	const struct timespec times[2] = {{.tv_sec = time}, {.tv_sec = time}};

	time++;
	ck_assert_int_eq(futimens(disk.image->backing.fd, times), 0);
}

static void
leave_closed_record(void)
{
	begin_test();
	unlink(path);
	record_facts = (struct stat){.st_ino = 0};
	open_set();
	ck_assert_int_eq(begin(0), 0);
	change(IO_WRITE, 1, 1);
	checkpoints_free(set);
}

static void
expect_unknown(const char *part)
{
	char reason[REASON_MAX];

	ck_assert(checkpoints_problem(set, reason));
	ck_assert_msg(strstr(reason, part) != NULL, "%s", reason);
	checkpoints_free(set);
}

static void
set_times_later(void)
{
	if (set->has_record)
		set_times();
}

/* Between the judgement of the record and the first change that it notes. */
START_TEST(change_during_opening_is_noticed)
{
	leave_closed_record();
	at_record_sync = set_times_later;
	open_set();
	at_record_sync = NULL;
	expect_unknown("while it was opened");
	open_set();
	expect_unknown("while it was opened");
	end_test();
}
END_TEST

/* Else what others wrote into the page cache would change the image after the judgement. */
START_TEST(image_is_written_back_before_it_is_judged)
{
	leave_closed_record();
	at_sync = set_times;
	open_set();
	at_sync = NULL;
	expect_unknown("changed without this server");
	end_test();
}
END_TEST

/* The one that it belongs to may come back, or the disk. */
START_TEST(record_that_is_not_for_now_is_left_alone)
{
	struct image *image;

	leave_closed_record();
	image = disk.image;
	read_error = EIO;
	open_set();
	read_error = 0;
	ck_assert_ptr_null(set->first);
	expect_unknown("can't be read");
	sync_error = EIO;
	open_set();
	forget_failure();
	expect_unknown("can't tell whether");
	image->config.offset = MIB;
	open_set();
	image->config.offset = 0;
	ck_assert_ptr_null(set->first);
	expect_unknown("another offset");
	end_test();
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "record faults"},
		{.test = server_is_killed_at_each_call},
		{.test = power_fails_at_each_call, .last = 5},
		{.test = disk_of_the_record_is_full_at_each_call},
		{.test = checkpoint_is_recorded_when_the_image_is_durable},
		{.test = checkpoint_of_an_image_that_is_not_durable_fails},
		{.test = record_is_not_trusted_after_a_failed_sync_at_the_end},
		{.test = changes_go_on_while_a_checkpoint_gets_room},
		{.test = change_during_opening_is_noticed},
		{.test = image_is_written_back_before_it_is_judged},
		{.test = record_that_is_not_for_now_is_left_alone},
		{0},
	};

	return suite_run("record faults", cases);
}
