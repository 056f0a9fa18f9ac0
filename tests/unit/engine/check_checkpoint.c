/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/changes/checkpoint.h"

#include "engine/image/freeze.h"
#include "engine/io/image_state.h"
#include "tests/lib/suite.h"
#include "tests/unit/engine/changed_run.h"
#include "tests/unit/fake_image.h"
#include "tests/unit/log_capture.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB     1024u
#define MIB     (1u << 20)
#define GRANULE CHECKPOINT_GRANULE_MIN

static struct fake_image disk;
static struct checkpoints *set;
static unsigned char *bytes;

static void
open_with(const struct fake_facts *facts)
{
	log_capture_begin();
	fake_image_open(&disk, facts);
	set = checkpoints_new(disk.image);
	ck_assert_ptr_nonnull(set);
	bytes = buffer_new(MIB, 0);
	buffer_fill(bytes, MIB, 7);
}

static void
close_all(void)
{
	checkpoints_free(set);
	buffer_free(bytes);
	fake_image_close(&disk);
	log_capture_end();
}

static void
begin(const char *name, uint64_t granule)
{
	char *error;

	ck_assert_int_eq(checkpoints_begin(&set, 1, name, granule, &error), 0);
	ck_assert_ptr_null(error);
}

static void
end(const char *name)
{
	char *error;

	ck_assert_int_eq(checkpoints_end(&set, 1, name, &error), 0);
	ck_assert_ptr_null(error);
}

static void
refused(int r, int wanted, char *error, const char *part)
{
	ck_assert_int_eq(r, wanted);
	ck_assert_ptr_nonnull(error);
	ck_assert_msg(strstr(error, part), "%s", error);
	free(error);
}

/* The n-th checkpoint, held. */
static struct checkpoint *
held(size_t n)
{
	struct checkpoint_facts facts;
	struct checkpoint *checkpoint;

	ck_assert(checkpoints_at(set, n, &facts));
	checkpoint = checkpoint_hold(set, facts.id);
	ck_assert_ptr_nonnull(checkpoint);
	return checkpoint;
}

/* The changed parts, as text: "start-end" in KiB. */
static void
assert_changed(size_t n, const char *wanted)
{
	struct checkpoint *checkpoint = held(n);
	uint64_t size = image_size(disk.image);
	char seen[256] = "";

	for (uint64_t at = 0, next; at < size; at = next)
		if (changed_run(checkpoint, at, size, &next) == 1)
			sprintf(seen + strlen(seen), " %u-%u", (unsigned int)(at / KIB),
				(unsigned int)(next / KIB));
	checkpoint_release(checkpoint);
	ck_assert_str_eq(seen, wanted);
}

static void
change(enum io_op op, uint64_t offset, uint64_t length)
{
	ck_assert_int_eq(test_io_execute(disk.ctx, op, 0, offset, length, bytes), 0);
}

START_TEST(writes_zeroes_and_trims_are_changes_and_reads_are_not)
{
	open_with(&(struct fake_facts){.offset = 64 * KIB});
	change(IO_WRITE, 0, 512);
	begin("a", GRANULE);
	assert_changed(0, "");
	change(IO_READ, 0, 64 * KIB);
	change(IO_FLUSH, 0, 0);
	assert_changed(0, "");
	change(IO_WRITE, 8 * KIB + 100, 1);
	change(IO_ZERO, 16 * KIB, 8 * KIB);
	change(IO_DISCARD, 31 * KIB, 2 * KIB);
	assert_changed(0, " 8-12 16-24 28-36");
	close_all();
}
END_TEST

START_TEST(each_checkpoint_notes_what_came_after_it)
{
	open_with(&(struct fake_facts){0});
	begin("a", GRANULE);
	change(IO_WRITE, 0, 512);
	begin("b", CHECKPOINT_GRANULE);
	change(IO_WRITE, 128 * KIB, 512);
	assert_changed(0, " 0-4 128-132");
	assert_changed(1, " 128-192");
	end("a");
	assert_changed(0, " 128-192");
	close_all();
}
END_TEST

/* What a copy knows stays, also when the checkpoints that it was made of have ended. */
START_TEST(copy_is_of_its_moment)
{
	struct checkpoint *prepared;
	struct checkpoints *copy, *original;
	struct checkpoint_facts facts;
	struct freeze freeze;
	char *error;

	open_with(&(struct fake_facts){0});
	original = set;
	begin("a", GRANULE);
	change(IO_WRITE, 0, 512);
	ck_assert_int_eq(checkpoints_prepare(&set, 1, "b", GRANULE, &prepared, &error), 0);
	copy = checkpoints_prepare_copy(set, prepared);
	ck_assert_ptr_nonnull(copy);
	change(IO_WRITE, 8 * KIB, 512);
	freeze_begin(&freeze, &disk.image, 1);
	checkpoints_begin_prepared(prepared);
	checkpoints_copy(copy);
	freeze_end(&freeze);
	change(IO_WRITE, 16 * KIB, 512);
	assert_changed(0, " 0-4 8-12 16-20");
	assert_changed(1, " 16-20");
	checkpoints_spoil(copy);
	checkpoints_resized(copy);
	end("a");
	set = copy;
	assert_changed(0, " 0-4 8-12");
	assert_changed(1, "");
	ck_assert(checkpoints_at(copy, 1, &facts));
	ck_assert_str_eq(facts.name, "b");
	ck_assert_int_gt(facts.begun, 0);
	checkpoints_free(copy);
	set = original;
	close_all();
}
END_TEST

/* A change that failed may have changed bytes. */
START_TEST(failed_change_counts)
{
	open_with(&(struct fake_facts){0});
	begin("a", GRANULE);
	fake_fault(&disk.fake, CHUNK_WRITE, 0, 1, -EIO);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_WRITE, 0, 0, 512, bytes), -EIO);
	assert_changed(0, " 0-4");
	close_all();
}
END_TEST

START_TEST(resized_part_counts_as_changed)
{
	open_with(&(struct fake_facts){0});
	begin("a", GRANULE);
	image_set_size(disk.image, 512 * KIB);
	checkpoints_resized(set);
	image_set_size(disk.image, MIB);
	checkpoints_resized(set);
	assert_changed(0, " 512-1024");
	image_set_size(disk.image, 256 * KIB);
	checkpoints_resized(set);
	assert_changed(0, "");
	close_all();
}
END_TEST

START_TEST(deleted_checkpoint_says_so_to_those_who_hold_it)
{
	struct checkpoint_facts facts, second;
	struct checkpoint *checkpoint;

	open_with(&(struct fake_facts){0});
	begin("a", GRANULE);
	ck_assert(checkpoints_at(set, 0, &facts));
	checkpoint = held(0);
	ck_assert_int_eq(changed_run_error(checkpoint), 0);
	end("a");
	ck_assert_int_eq(changed_run_error(checkpoint), -EIDRM);
	checkpoint_release(checkpoint);
	ck_assert_ptr_null(checkpoint_hold(set, facts.id));
	begin("a", GRANULE);
	ck_assert(checkpoints_at(set, 0, &second));
	ck_assert_uint_ne(second.id, facts.id); /* another one, though of that name */
	ck_assert(!checkpoints_at(set, 1, &second));
	close_all();
}
END_TEST

START_TEST(wrong_names_and_granules_are_refused)
{
	static const char *const names[] = {"", "a b", "a/b", "\xc3\xa4", "a=b"};
	char longest[CHECKPOINT_NAME_MAX + 2], *error;
	int r;

	open_with(&(struct fake_facts){0});
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		r = checkpoints_begin(&set, 1, names[i], GRANULE, &error);
		refused(r, -EINVAL, error, "letters");
	}
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	r = checkpoints_begin(&set, 1, longest, GRANULE, &error);
	refused(r, -EINVAL, error, "128");
	begin(longest + 1, GRANULE);
	for (unsigned int i = 0; i < 4; i++) {
		static const uint64_t granules[] = {0, 2048, 12288, 2 * MIB};

		r = checkpoints_begin(&set, 1, "a", granules[i], &error);
		refused(r, -EINVAL, error, "power of 2");
	}
	r = checkpoints_end(&set, 1, "a", &error);
	refused(r, -ENOENT, error, "no checkpoint a");
	close_all();
}
END_TEST

START_TEST(too_many_checkpoints_are_refused)
{
	char name[16], *error;
	int r;

	open_with(&(struct fake_facts){0});
	for (unsigned int i = 0; i < CHECKPOINTS_MAX; i++) {
		snprintf(name, sizeof(name), "c%u", i);
		begin(name, GRANULE);
	}
	r = checkpoints_begin(&set, 1, "more", GRANULE, &error);
	refused(r, -ENOSPC, error, "32");
	end("c7");
	begin("more", GRANULE);
	close_all();
}
END_TEST

/* All of them, or none. */
START_TEST(checkpoint_of_two_images_begins_and_ends_in_both)
{
	struct checkpoints *sets[2];
	struct checkpoint_facts facts;
	struct fake_image second;
	char *error;
	int r;

	open_with(&(struct fake_facts){0});
	fake_image_open(&second, &(struct fake_facts){0});
	sets[0] = set;
	sets[1] = checkpoints_new(second.image);
	r = checkpoints_begin(&sets[1], 1, "a", GRANULE, &error);
	ck_assert_int_eq(r, 0);
	r = checkpoints_begin(sets, 2, "a", GRANULE, &error);
	refused(r, -EEXIST, error, "already");
	ck_assert(!checkpoints_at(set, 0, &facts));
	r = checkpoints_end(sets, 2, "a", &error);
	refused(r, -ENOENT, error, "no checkpoint");
	ck_assert(checkpoints_at(sets[1], 0, &facts));
	ck_assert_int_eq(checkpoints_begin(sets, 2, "b", GRANULE, &error), 0);
	ck_assert(checkpoints_at(set, 0, &facts) && checkpoints_at(sets[1], 1, &facts));
	ck_assert_int_eq(checkpoints_end(sets, 2, "b", &error), 0);
	ck_assert(!checkpoints_at(set, 0, &facts) && !checkpoints_at(sets[1], 1, &facts));
	checkpoints_free(sets[1]);
	fake_image_close(&second);
	close_all();
}
END_TEST

/* As of an export of a snapshot, whose name a client chose when it was another export's. */
START_TEST(no_set_has_no_checkpoint)
{
	struct checkpoint_facts facts;

	ck_assert(!checkpoints_at(NULL, 0, &facts));
	ck_assert_ptr_null(checkpoint_hold(NULL, 2));
	checkpoints_resized(NULL);
	checkpoints_spoil(NULL);
	checkpoints_free(NULL);
}
END_TEST

START_TEST(all_is_changed_where_nothing_is_known)
{
	struct checkpoint_facts facts;
	struct checkpoint *checkpoint;
	uint64_t end;
	char *error;

	open_with(&(struct fake_facts){0});
	ck_assert_int_eq(checkpoints_begin(&set, 1, "a", GRANULE, &error), 0);
	ck_assert(checkpoints_at(set, 0, &facts));
	checkpoint = checkpoint_hold(set, facts.id);
	ck_assert_int_eq(changed_run(checkpoint, 0, 4 * GRANULE, &end), false);
	checkpoints_spoil(set);
	ck_assert_int_eq(changed_run(checkpoint, 0, 4 * GRANULE, &end), true);
	ck_assert_uint_eq(end, 4 * GRANULE);
	checkpoint_release(checkpoint);
	close_all();
}
END_TEST

START_TEST(image_that_other_servers_may_change_has_no_checkpoints)
{
	char *error;

	open_with(&(struct fake_facts){0});
	disk.image->config.lock = LOCK_SHARED;
	ck_assert_int_eq(checkpoints_begin(&set, 1, "a", GRANULE, &error), -EBUSY);
	ck_assert_ptr_nonnull(strstr(error, "no checkpoints with lock=shared"));
	free(error);
	disk.image->config.lock = LOCK_OFF;
	ck_assert_int_eq(checkpoints_begin(&set, 1, "a", GRANULE, &error), -EBUSY);
	free(error);
	/* A reader's shared lock keeps writers out. */
	disk.image->config.lock = LOCK_SHARED;
	disk.image->backing.writable = false;
	begin("a", GRANULE);
	close_all();
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "checkpoint"},
		{.test = writes_zeroes_and_trims_are_changes_and_reads_are_not},
		{.test = each_checkpoint_notes_what_came_after_it},
		{.test = copy_is_of_its_moment},
		{.test = failed_change_counts},
		{.test = resized_part_counts_as_changed},
		{.test = deleted_checkpoint_says_so_to_those_who_hold_it},
		{.test = wrong_names_and_granules_are_refused},
		{.test = image_that_other_servers_may_change_has_no_checkpoints},
		{.test = too_many_checkpoints_are_refused},
		{.test = checkpoint_of_two_images_begins_and_ends_in_both},
		{.test = no_set_has_no_checkpoint},
		{.test = all_is_changed_where_nothing_is_known},
		{0},
	};

	return suite_run("checkpoint", cases);
}
