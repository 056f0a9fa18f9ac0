/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copy-before-write: whatever changes the file, the copy's reader gets what it held before.
 */
#include "engine/snapshot/copy.h"

#include "engine/backing/open.h"

#include "tests/lib/suite.h"
#include "tests/unit/log_capture.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GRANULE COPY_GRANULE
#define SIZE    (768u << 10) /* more than is copied at once */

static char directory[SCRATCH_PATH];
static int file;
static char old[SIZE];
static struct backing source;
static struct copy copy;

static void
make_directory(void)
{
	scratch_directory_new(directory);
}

static void
remove_directory(void)
{
	scratch_directory_remove(directory);
}

static void
open_source(bool direct)
{
	const struct image_config config = {.direct_io = direct ? TRISTATE_AUTO : TRISTATE_OFF,
					    .lock = LOCK_OFF};
	char path[SCRATCH_PATH], *error = NULL;

	ck_assert_int_eq(
		backing_open(&source, AT_FDCWD, scratch_path(file, path), 0, &config, &error), 0);
}

/* Makes a copy of the file from `start` to `end`, with a limit of its scratch file. */
static void
begin_copy(uint64_t start, uint64_t end, uint64_t most)
{
	const struct copy_place place = {
		.name = "then",
		.source = &source,
		.start = start,
		.end = end,
		.direct_end = SIZE / 4096 * 4096,
		.scratch = directory,
		.scratch_size = most,
	};
	char *error = NULL;

	ck_assert_int_eq(copy_init(&copy, &place, &error), 0);
}

static void
begin(void)
{
	file = scratch_file(SIZE);
	scratch_fill(file, 0, SIZE);
	ck_assert_int_eq(pread(file, old, SIZE, 0), SIZE);
	open_source(true);
	memset(&copy, 0, sizeof(copy));
	log_capture_begin();
}

static void
end(void)
{
	log_capture_end();
	copy_fini(&copy);
	backing_close(&source);
	close(file);
}

/* What a server does for a client's write. */
static void
change(uint64_t start, uint64_t stop, char byte)
{
	static char bytes[SIZE];

	memset(bytes, byte, sizeof(bytes));
	copy_keep(&copy, false, start, stop);
	ck_assert(copy_has(&copy, start, stop));
	ck_assert_int_eq(pwrite(file, bytes, stop - start, (off_t)start), (int)(stop - start));
}

static void
assert_old(uint64_t start, uint64_t stop)
{
	static char now[SIZE];

	memset(now, 0x55, sizeof(now));
	ck_assert_int_eq(copy_read(&copy, false, now, stop - start, start), (int)(stop - start));
	ck_assert_int_eq(memcmp(now, old + start, stop - start), 0);
}

START_TEST(reader_gets_what_was_there_before_a_change)
{
	begin_copy(0, SIZE, 0);
	assert_old(0, SIZE);
	change(0, 1, 'a');
	change(3 * GRANULE - 1, 3 * GRANULE + 1, 'b');
	change(SIZE - 100000, SIZE, 'c');
	assert_old(0, SIZE);
	assert_old(3 * GRANULE - 7, 3 * GRANULE + 9);
	change(0, SIZE, 'd');
	assert_old(0, SIZE);
	change(0, SIZE, 'e');
	assert_old(0, SIZE);
}
END_TEST

/* The first run of granules is shorter than the next ones, which have room nevertheless. */
START_TEST(long_change_that_begins_within_a_granule_is_copied_whole)
{
	begin_copy(512, SIZE, 0);
	change(512, SIZE, 'a');
	assert_old(512, SIZE);
}
END_TEST

START_TEST(change_of_what_is_not_copied_has_to_wait)
{
	begin_copy(0, SIZE, 0);
	ck_assert(!copy_has(&copy, 5 * GRANULE, 5 * GRANULE + 1));
	copy_keep(&copy, false, 5 * GRANULE, 5 * GRANULE + 1);
	ck_assert(copy_has(&copy, 5 * GRANULE, 6 * GRANULE));
	ck_assert(!copy_has(&copy, 5 * GRANULE, 6 * GRANULE + 1));
	ck_assert(!copy_has(&copy, 4 * GRANULE, 6 * GRANULE));
	ck_assert(!copy_has(&copy, 0, UINT64_MAX));
}
END_TEST

/* The window begins and ends inside of granules. */
START_TEST(window_is_copied_to_its_last_byte)
{
	const uint64_t first = 3 * 512, last = 40 * GRANULE + 512;

	begin_copy(first, last, 0);
	change(0, 512, 'a');
	change(last, last + 512, 'b');
	assert_old(first, last);
	change(0, SIZE, 'c');
	assert_old(first, last);
	ck_assert(copy_has(&copy, last, SIZE));
	ck_assert_uint_le(atomic_load(&copy.scratch.written), last - first);
}
END_TEST

START_TEST(zeroes_and_holes_take_no_room)
{
	const off_t first = 64 << 10, length = 128 << 10;

	ck_assert_int_eq(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, first, length),
			 0);
	memset(old + first, 0, (size_t)length);
	memset(old, 0, 2 * GRANULE);
	ck_assert_int_eq(pwrite(file, old, 2 * GRANULE, 0), 2 * GRANULE);
	begin_copy(0, SIZE, 0);
	change(0, 2 * GRANULE, 'a');
	change((uint64_t)first, (uint64_t)(first + length), 'b');
	ck_assert_uint_eq(atomic_load(&copy.scratch.written), 0);
	change(3 * GRANULE, 4 * GRANULE, 'c');
	ck_assert_uint_eq(atomic_load(&copy.scratch.written), GRANULE);
	assert_old(0, SIZE);
}
END_TEST

/* A discard of a whole sparse disk must not read it. */
START_TEST(holes_are_not_read)
{
	ck_assert_int_eq(ftruncate(file, 0), 0);
	ck_assert_int_eq(ftruncate(file, SIZE), 0);
	begin_copy(0, SIZE, 0);
	copy_keep(&copy, false, 0, SIZE);
	ck_assert(copy_has(&copy, 0, SIZE));
	ck_assert_int_eq(scratch_cached_pages(file), 0);
}
END_TEST

/* ---- holes */

static char map[512]; /* the visited extents, in granules: "0+16 data, 16+176 hole" */

static int
note(void *data, uint64_t offset, uint64_t length, bool hole)
{
	size_t used = strlen(map);

	(void)data;
	snprintf(map + used, sizeof(map) - used, "%s%llu+%llu %s", used ? ", " : "",
		 (unsigned long long)(offset / GRANULE), (unsigned long long)(length / GRANULE),
		 hole ? "hole" : "data");
	return 0;
}

START_TEST(hole_stays_a_hole_until_it_is_changed)
{
	ck_assert_int_eq(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 64 << 10,
				   SIZE - (64 << 10)),
			 0);
	memset(old + (64 << 10), 0, SIZE - (64 << 10));
	begin_copy(0, SIZE, 0);
	ck_assert_int_eq(copy_extents(&copy, 0, SIZE, false, note, NULL), 0);
	ck_assert_str_eq(map, "0+16 data, 16+176 hole");
	map[0] = '\0';
	change(32 * GRANULE, 48 * GRANULE, 'a');
	/* What was data must not become a hole, either. */
	copy_keep(&copy, false, 0, 64 << 10);
	ck_assert_int_eq(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 64 << 10),
			 0);
	ck_assert_int_eq(copy_extents(&copy, 0, SIZE, false, note, NULL), 0);
	ck_assert_str_eq(map, "0+16 data, 16+16 hole, 32+16 data, 48+144 hole");
	assert_old(0, SIZE);
}
END_TEST

/* ---- what breaks a copy */

static void
assert_broken(const char *words)
{
	char reason[REASON_MAX], byte;

	ck_assert(copy_is_broken(&copy, reason));
	ck_assert_msg(strstr(reason, words), "%s", reason);
	ck_assert(log_capture_has(LOG_LEVEL_ERROR, "snapshot then: broken: "));
	ck_assert_int_eq(copy_read(&copy, false, &byte, 1, SIZE / 2), -EIO);
	ck_assert_int_eq(copy_extents(&copy, 0, SIZE, false, note, NULL), -EIO);
	/* No change waits for it any more. */
	ck_assert(copy_has(&copy, 0, SIZE));
}

START_TEST(full_scratch_file_breaks_the_copy_and_stops_nobody)
{
	begin_copy(0, SIZE, 2 * GRANULE);
	change(0, 2 * GRANULE, 'a');
	assert_old(0, SIZE);
	change(2 * GRANULE, 3 * GRANULE, 'b');
	assert_broken("scratch-size=8192");
}
END_TEST

START_TEST(truncated_file_breaks_the_copy)
{
	char byte;

	begin_copy(0, SIZE, 0);
	ck_assert_int_eq(ftruncate(file, SIZE / 2), 0);
	assert_old(0, SIZE / 2);
	ck_assert_int_eq(copy_read(&copy, false, &byte, 1, SIZE / 2), -EIO);
	assert_broken("truncated to 393216 bytes");
}
END_TEST

/* As a hole, it would be kept as zeroes. */
START_TEST(truncated_part_is_no_hole)
{
	begin_copy(0, SIZE, 0);
	ck_assert_int_eq(ftruncate(file, SIZE / 2), 0);
	copy_keep(&copy, false, SIZE / 2, SIZE);
	assert_broken("truncated to 393216 bytes");
}
END_TEST

/* The same where a hole is before it. */
START_TEST(truncated_part_after_a_hole_is_no_hole)
{
	begin_copy(0, SIZE, 0);
	ck_assert_int_eq(ftruncate(file, SIZE / 4), 0);
	ck_assert_int_eq(ftruncate(file, SIZE / 2), 0);
	copy_keep(&copy, false, SIZE / 4, SIZE);
	assert_broken("truncated to 393216 bytes");
}
END_TEST

/* Changes that wait for its end would otherwise copy what nobody reads. */
START_TEST(abandoned_copy_copies_no_more)
{
	begin_copy(0, SIZE, 0);
	change(0, GRANULE, 'a');
	copy_abandon(&copy);
	ck_assert(copy_has(&copy, 0, SIZE));
	copy_keep(&copy, false, 0, SIZE);
	ck_assert_uint_eq(atomic_load(&copy.scratch.written), GRANULE);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_ERROR), 0);
}
END_TEST

START_TEST(directory_that_is_missing_is_named)
{
	const struct copy_place place = {
		.name = "then", .source = &source, .end = SIZE, .scratch = "/nowhere/at/all"};
	char *error = NULL;

	ck_assert_int_eq(copy_init(&copy, &place, &error), -ENOENT);
	ck_assert_msg(strstr(error, "/nowhere/at/all: No such file"), "%s", error);
	free(error);
	memset(&copy, 0, sizeof(copy));
	copy.source.fd = copy.source.direct_fd = copy.scratch.fd = -1;
}
END_TEST

/* ---- several threads */

#define CHANGERS 3
#define CHANGES  400

static _Atomic unsigned int changing;

/* Changes neighbouring bytes of the same granules as the other threads do, in an order of its own.
 */
static void *
change_much(void *data)
{
	struct part_reads reads = {0};
	unsigned int number = (unsigned int)(uintptr_t)data;
	char bytes[512];

	for (unsigned int i = 0; i < CHANGES; i++) {
		unsigned int granule = (i * 37 + number) % (SIZE / GRANULE);
		uint64_t place = (uint64_t)granule * GRANULE + number * sizeof(bytes);

		memset(bytes, (int)(i + number), sizeof(bytes));
		if (number % 2)
			copy_ahead(&copy, &reads,
				   (struct copy_range[]){
					   {place, place + sizeof(bytes)},
					   {granule / 2 * GRANULE, granule / 2 * GRANULE + 1}},
				   2);
		copy_keep(&copy, number % 2, place, place + sizeof(bytes));
		ck_assert_int_eq(pwrite(file, bytes, sizeof(bytes), (off_t)place), sizeof(bytes));
	}
	part_reads_fini(&reads);
	atomic_fetch_sub(&changing, 1);
	return NULL;
}

START_TEST(reader_gets_the_old_bytes_while_threads_change_them)
{
	pthread_t threads[CHANGERS];

	begin_copy(0, SIZE, 0);
	atomic_store(&changing, CHANGERS);
	for (uintptr_t i = 0; i < CHANGERS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, change_much, (void *)i), 0);
	do
		assert_old(0, SIZE);
	while (atomic_load(&changing) > 0);
	for (int i = 0; i < CHANGERS; i++)
		pthread_join(threads[i], NULL);
	assert_old(0, SIZE);
	ck_assert_uint_le(atomic_load(&copy.scratch.written), SIZE);
}
END_TEST

/* ---- several changes at once */

/* Some file systems have no direct I/O, and some machines no Linux AIO: then nothing is copied
 * ahead. */
static bool
copies_ahead(const struct part_reads *reads)
{
	return copy.source.direct_fd >= 0 && !reads->impossible;
}

START_TEST(several_changes_are_copied_at_once)
{
	struct copy_range ranges[AHEAD_CHANGES];
	struct part_reads reads = {0};

	begin_copy(0, SIZE, 0);
	for (unsigned int i = 0; i < AHEAD_CHANGES; i++)
		ranges[i] = (struct copy_range){i * 3 * GRANULE + 100, (i * 3 + 1) * GRANULE + i};
	copy_ahead(&copy, &reads, ranges, AHEAD_CHANGES);
	for (unsigned int i = 0; i < AHEAD_CHANGES; i++) {
		ck_assert(copy_has(&copy, ranges[i].start, ranges[i].end) == copies_ahead(&reads));
		ck_assert(!copy_has(&copy, ranges[i].start + 2 * GRANULE,
				    ranges[i].end + 2 * GRANULE));
		change(ranges[i].start, ranges[i].end, 'a');
	}
	copy_ahead(&copy, &reads, ranges, AHEAD_CHANGES);
	assert_old(0, SIZE);
	part_reads_fini(&reads);
}
END_TEST

/* Two changes of one granule never overlap, but their copies would. */
START_TEST(what_another_thread_copies_is_left_to_it)
{
	const struct copy_range ranges[] = {{4 * GRANULE, 6 * GRANULE},
					    {7 * GRANULE, 7 * GRANULE + 512},
					    {7 * GRANULE + 512, 8 * GRANULE}};
	struct part_reads reads = {0};
	struct copy_claim claim;

	begin_copy(0, SIZE, 0);
	ck_assert(copy_claim_at_once(&copy, 5 * GRANULE, 5 * GRANULE + 1, &claim));
	ck_assert(!copy_claim_at_once(&copy, 4 * GRANULE, 6 * GRANULE, &(struct copy_claim){0}));
	copy_ahead(&copy, &reads, ranges, 3);
	ck_assert(!copy_has(&copy, 4 * GRANULE, 5 * GRANULE));
	ck_assert(!copy_has(&copy, 5 * GRANULE, 6 * GRANULE));
	ck_assert(copy_has(&copy, 7 * GRANULE, 8 * GRANULE) == copies_ahead(&reads));
	ck_assert_uint_eq(atomic_load(&copy.scratch.written), copies_ahead(&reads) ? GRANULE : 0);
	copy_release(&copy, &claim, 1);
	change(4 * GRANULE, 8 * GRANULE, 'a');
	assert_old(0, SIZE);
	part_reads_fini(&reads);
}
END_TEST

/* Its last granule is no whole block, which direct I/O can't read; and the scratch file is full. */
START_TEST(what_cannot_be_copied_ahead_is_copied_later_or_breaks_the_copy)
{
	const struct copy_range last = {SIZE - 100, SIZE},
				others[] = {{0, 1}, {GRANULE, GRANULE + 1}},
				mixed[] = {last, {2 * GRANULE, 2 * GRANULE + 1}};
	struct part_reads reads = {0};

	ck_assert_int_eq(ftruncate(file, SIZE - 50), 0);
	begin_copy(0, SIZE - 50, 2 * GRANULE + GRANULE / 2);
	copy_ahead(&copy, &reads, mixed, 2);
	ck_assert(!copy_has(&copy, last.start, SIZE - 50));
	ck_assert(copy_has(&copy, mixed[1].start, mixed[1].end) == copies_ahead(&reads));
	copy_keep(&copy, true, mixed[1].start, mixed[1].end);
	copy_ahead(&copy, &reads, others, 2);
	for (unsigned int i = 0; i < 2; i++)
		copy_keep(&copy, true, others[i].start, others[i].end);
	ck_assert(copy_is_broken(&copy, (char[REASON_MAX]){0}));
	ck_assert(copy_has(&copy, 0, SIZE));
	copy_ahead(&copy, &reads, &(struct copy_range){5 * GRANULE, 6 * GRANULE}, 1);
	ck_assert_uint_le(atomic_load(&copy.scratch.written), 3 * GRANULE);
	part_reads_fini(&reads);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "copy",
		 .begin_once = make_directory,
		 .end_once = remove_directory,
		 .begin = begin,
		 .end = end},
		{.test = reader_gets_what_was_there_before_a_change},
		{.test = long_change_that_begins_within_a_granule_is_copied_whole},
		{.test = change_of_what_is_not_copied_has_to_wait},
		{.test = window_is_copied_to_its_last_byte},
		{.test = zeroes_and_holes_take_no_room},
		{.test = holes_are_not_read, .reason = scratch_no_view_of_cache()},
		{.test = hole_stays_a_hole_until_it_is_changed},
		{.test = full_scratch_file_breaks_the_copy_and_stops_nobody},
		{.test = truncated_file_breaks_the_copy},
		{.test = truncated_part_is_no_hole},
		{.test = truncated_part_after_a_hole_is_no_hole},
		{.test = abandoned_copy_copies_no_more},
		{.test = directory_that_is_missing_is_named},
		{.test = reader_gets_the_old_bytes_while_threads_change_them},
		{.test = several_changes_are_copied_at_once},
		{.test = what_another_thread_copies_is_left_to_it},
		{.test = what_cannot_be_copied_ahead_is_copied_later_or_breaks_the_copy},
		{0},
	};

	return suite_run("copy", cases);
}
