/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Checkpoints that a backing keeps by itself: the set follows the backing's list, and what has
 * changed is told in whole granules, never too little.
 */
#include "engine/changes/checkpoint.h"

#include "tests/lib/suite.h"
#include "tests/unit/engine/changed_run.h"

#include "common/cleanup.h"
#include "engine/backing/kind.h"
#include "engine/changes/checkpoints_state.h"
#include "engine/io/image_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB   UINT64_C(1024)
#define START (64 * KIB) /* of the image in its backing */

struct backing_snapshot {
	char name[64];
	bool kept;
};

struct backing_removal {
	uint64_t id;
};

/* ---- the backing */

static struct {
	struct backing_checkpoint list[CHECKPOINTS_MAX + 2];
	size_t count;
	uint64_t edition;
	uint64_t asked, asked_length; /* of the last question for changes */
	uint64_t runs[4][2];          /* what has changed: start and end */
	size_t run_count;
	int result;    /* of the questions, making and removing: 0 or -errno */
	size_t thrown; /* snapshots that were freed, and not kept */
	uint64_t last_id;
} fake;

static size_t
fake_list(const struct backing *backing, struct backing_checkpoint list[], size_t most)
{
	size_t count = fake.count < most ? fake.count : most;

	(void)backing;
	memcpy(list, fake.list, count * sizeof(*list));
	return count;
}

static uint64_t
fake_edition(const struct backing *backing)
{
	(void)backing;
	return fake.edition;
}

static int
fake_prepare(const struct backing *backing, const char *name, struct backing_snapshot **snapshot,
	     char **error)
{
	(void)backing;
	(void)error;
	*snapshot = calloc(1, sizeof(**snapshot));
	ck_assert_ptr_nonnull(*snapshot);
	snprintf((*snapshot)->name, sizeof((*snapshot)->name), "%s", name);
	return 0;
}

static void
add(const char *name, uint64_t size)
{
	struct backing_checkpoint *one = &fake.list[fake.count++];

	*one = (struct backing_checkpoint){.id = ++fake.last_id, .size = size, .begun = 7};
	snprintf(one->name, sizeof(one->name), "%s", name);
	fake.edition++;
}

static void
take_out(uint64_t id)
{
	size_t i = 0;

	while (fake.list[i].id != id)
		i++;
	fake.count--;
	memmove(&fake.list[i], &fake.list[i + 1], (fake.count - i) * sizeof(fake.list[0]));
	fake.edition++;
}

static void
fake_keep(struct backing_snapshot *snapshot)
{
	snapshot->kept = true;
	add(snapshot->name, UINT64_MAX);
}

static int
fake_remove(const struct backing *backing, uint64_t id, bool anyway,
	    struct backing_removal **removal, char **error)
{
	(void)backing;
	(void)anyway;
	(void)error;
	*removal = calloc(1, sizeof(**removal));
	ck_assert_ptr_nonnull(*removal);
	(*removal)->id = id;
	return 0;
}

static int
fake_await_removal(struct backing_removal *removal, int64_t end, char **error)
{
	(void)end;
	(void)error;
	if (fake.result == 0)
		take_out(removal->id);
	free(removal);
	return fake.result;
}

static int
fake_changes(const struct backing *backing, uint64_t id, uint64_t offset, uint64_t length,
	     extent_visit visit, void *data)
{
	int r = 0;

	(void)backing;
	(void)id;
	fake.asked = offset;
	fake.asked_length = length;
	for (size_t i = 0; r == 0 && i < fake.run_count; i++) {
		uint64_t start = fake.runs[i][0], end = fake.runs[i][1];

		start = start < offset ? offset : start;
		end = end > offset + length ? offset + length : end;
		if (start < end)
			r = visit(data, start, end - start, false);
	}
	return fake.result < 0 ? fake.result : r;
}

static int
fake_start(struct backing_snapshot *snapshot, char **error)
{
	(void)snapshot;
	(void)error;
	return 0;
}

static int
fake_await(struct backing_snapshot *snapshot, int64_t end, char **error)
{
	(void)snapshot;
	(void)end;
	(void)error;
	return fake.result;
}

static void
fake_free(struct backing_snapshot *snapshot)
{
	fake.thrown += !snapshot->kept;
	free(snapshot);
}

static const struct backing_checkpoints checkpoints = {
	.list = fake_list,
	.edition = fake_edition,
	.prepare = fake_prepare,
	.keep = fake_keep,
	.remove = fake_remove,
	.await_removal = fake_await_removal,
	.changes = fake_changes,
};

static const struct backing_snapshots snapshots = {
	.start = fake_start,
	.await = fake_await,
	.free = fake_free,
};

static bool
fake_same(const struct backing *a, const struct backing *b)
{
	(void)a;
	(void)b;
	return true;
}

static const struct backing_kind kind = {
	.same = fake_same,
	.snapshots = &snapshots,
	.checkpoints = &checkpoints,
};

/* ---- the set */

static struct range_lock ranges;
static struct image image;
static struct checkpoints *set;

static void
begin_test(void)
{
	memset(&fake, 0, sizeof(fake));
	image = (struct image){.backing = {.kind = &kind, .path = (char *)"disk", .writable = true},
			       .ranges = &ranges,
			       .config = {.offset = START}};
	range_lock_init(&ranges);
	set = checkpoints_new(&image);
	ck_assert_ptr_nonnull(set);
}

static void
end_test(void)
{
	checkpoints_free(set);
	range_lock_fini(&ranges);
}

static void
assert_names(const char *wanted)
{
	struct checkpoint_facts facts;
	char seen[256] = "";

	for (size_t n = 0; checkpoints_at(set, n, &facts); n++) {
		ck_assert_int_eq(facts.unknown, false);
		ck_assert_uint_eq(facts.granule, 4096);
		strcat(strcat(seen, " "), facts.name);
	}
	ck_assert_str_eq(seen, wanted);
}

static struct checkpoint *
hold(size_t n)
{
	struct checkpoint_facts facts;
	struct checkpoint *checkpoint;

	ck_assert(checkpoints_at(set, n, &facts));
	checkpoint = checkpoint_hold(set, facts.id);
	ck_assert_ptr_nonnull(checkpoint);
	return checkpoint;
}

static int
note(void *data, uint64_t offset, uint64_t length, bool changed)
{
	char *seen = data;

	sprintf(seen + strlen(seen), " %s%u-%u", changed ? "" : "=", (unsigned int)(offset / 512),
		(unsigned int)((offset + length) / 512));
	return 0;
}

/* In sectors of 512 bytes; what has not changed is with a "=". */
static void
assert_told(uint64_t offset, uint64_t length, const char *wanted)
{
	struct checkpoint *checkpoint = hold(0);
	char seen[256] = "";

	ck_assert_int_eq(checkpoint_visit(checkpoint, offset, length, note, seen), 0);
	checkpoint_release(checkpoint);
	ck_assert_str_eq(seen, wanted);
}

static void
run(size_t n, uint64_t start, uint64_t end)
{
	fake.runs[n][0] = START + start;
	fake.runs[n][1] = START + end;
	fake.run_count = n + 1;
}

START_TEST(set_follows_the_backing)
{
	struct checkpoint *held;

	begin_test();
	assert_names("");
	add("one", UINT64_MAX);
	add("two", UINT64_MAX);
	add("no name", UINT64_MAX);
	assert_names(" one two");
	held = hold(0);
	ck_assert_int_eq(changed_run_error(held), 0);
	take_out(1);
	add("three", UINT64_MAX);
	assert_names(" two three");
	fake.result = -ENOENT;
	ck_assert_int_eq(changed_run_error(held), -EIDRM);
	checkpoint_release(held);
	end_test();
}
END_TEST

/* Two servers can begin one of the same name. The older one has all changes of the other. */
START_TEST(oldest_of_a_name_is_told)
{
	begin_test();
	add("one", UINT64_MAX);
	add("one", UINT64_MAX);
	assert_names(" one");
	ck_assert_uint_eq(hold(0)->native.id, 1);
	checkpoint_release(set->first);
	take_out(1);
	assert_names(" one");
	ck_assert_uint_eq(set->first->native.id, 2);
	end_test();
}
END_TEST

START_TEST(begins_and_ends_in_the_backing)
{
	char *CLEANUP_FREE error = NULL, *CLEANUP_FREE taken = NULL;

	begin_test();
	ck_assert_int_eq(checkpoints_begin(&set, 1, "one", CHECKPOINT_GRANULE, &error), 0);
	assert_names(" one");
	ck_assert_int_eq(checkpoints_begin(&set, 1, "one", CHECKPOINT_GRANULE, &taken), -EEXIST);
	ck_assert_int_eq(checkpoints_end(&set, 1, "one", &error), 0);
	assert_names("");
	end_test();
	ck_assert_uint_eq(fake.thrown, 0);
}
END_TEST

START_TEST(failure_begins_and_ends_none)
{
	char *CLEANUP_FREE error = NULL;

	begin_test();
	fake.result = -ETIMEDOUT;
	ck_assert_int_eq(checkpoints_begin(&set, 1, "one", CHECKPOINT_GRANULE, &error), -ETIMEDOUT);
	ck_assert_uint_eq(fake.thrown, 1);
	assert_names("");
	add("two", UINT64_MAX);
	ck_assert_int_eq(checkpoints_end(&set, 1, "two", &error), -ETIMEDOUT);
	assert_names(" two");
	end_test();
}
END_TEST

/* The backing has one for both. */
START_TEST(two_exports_of_an_image_begin_one)
{
	struct checkpoints *both[2];
	char *CLEANUP_FREE error = NULL;

	begin_test();
	both[0] = set;
	both[1] = checkpoints_new(&image);
	ck_assert_int_eq(checkpoints_begin(both, 2, "one", CHECKPOINT_GRANULE, &error), 0);
	ck_assert_uint_eq(fake.count, 1);
	set = both[1];
	assert_names(" one");
	ck_assert_int_eq(checkpoints_end(both, 2, "one", &error), 0);
	ck_assert_uint_eq(fake.count, 0);
	checkpoints_free(both[0]);
	end_test();
}
END_TEST

START_TEST(changes_are_told_in_whole_granules)
{
	begin_test();
	add("one", UINT64_MAX);
	assert_told(0, 64 * KIB, " =0-128");
	run(0, 5000, 5001);
	assert_told(0, 64 * KIB, " =0-8 8-16 =16-128");
	/* Two in one granule, and one in the next. */
	run(0, 4096, 4097);
	run(1, 8000, 8001);
	run(2, 8192, 8193);
	assert_told(0, 64 * KIB, " =0-8 8-24 =24-128");
	/* At the ends of what was asked for, and nothing beyond. */
	run(0, 0, 1);
	run(1, 63 * KIB, 80 * KIB);
	run(2, 90 * KIB, 91 * KIB);
	assert_told(512, 64 * KIB - 1024, " =1-120 120-127");
	ck_assert_uint_eq(fake.asked, START + 512);
	ck_assert_uint_eq(fake.asked_length, 64 * KIB - 1024);
	end_test();
}
END_TEST

START_TEST(what_the_image_did_not_have_has_changed)
{
	begin_test();
	add("one", START + 20 * KIB);
	assert_told(0, 64 * KIB, " =0-40 40-128");
	ck_assert_uint_eq(fake.asked_length, 20 * KIB);
	run(0, 19 * KIB, 20 * KIB);
	assert_told(0, 64 * KIB, " =0-32 32-128");
	fake.asked = 0;
	assert_told(32 * KIB, 4 * KIB, " 64-72");
	ck_assert_uint_eq(fake.asked, 0);
	/* It began after all of the backing then. */
	fake.list[0].size = START / 2;
	fake.list[0].id = ++fake.last_id;
	fake.edition++;
	assert_told(0, 4 * KIB, " 0-8");
	end_test();
}
END_TEST

START_TEST(failure_is_told)
{
	struct checkpoint *checkpoint;

	begin_test();
	add("one", UINT64_MAX);
	checkpoint = hold(0);
	fake.result = -ETIMEDOUT;
	ck_assert_int_eq(changed_run_error(checkpoint), -ETIMEDOUT);
	checkpoint_release(checkpoint);
	end_test();
}
END_TEST

START_TEST(granularity_is_that_of_the_backing)
{
	char *CLEANUP_FREE error = NULL, *CLEANUP_FREE none = NULL;

	begin_test();
	ck_assert_int_eq(checkpoints_begin(&set, 1, "one", 1024 * KIB, &error), -EINVAL);
	ck_assert_ptr_nonnull(strstr(error, "4 KiB"));
	ck_assert_int_eq(checkpoints_begin(&set, 1, "one", 4 * KIB, &none), 0);
	end_test();
}
END_TEST

START_TEST(number_is_limited)
{
	char *CLEANUP_FREE error = NULL;

	begin_test();
	for (unsigned int i = 0; i < CHECKPOINTS_MAX + 2; i++) {
		char name[16];

		sprintf(name, "n%u", i);
		add(name, UINT64_MAX);
	}
	ck_assert_int_eq(checkpoints_begin(&set, 1, "one", CHECKPOINT_GRANULE, &error), -ENOSPC);
	ck_assert_uint_eq(set->count, CHECKPOINTS_MAX);
	end_test();
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "native"},
		{.test = set_follows_the_backing},
		{.test = oldest_of_a_name_is_told},
		{.test = begins_and_ends_in_the_backing},
		{.test = failure_begins_and_ends_none},
		{.test = two_exports_of_an_image_begin_one},
		{.test = changes_are_told_in_whole_granules},
		{.test = what_the_image_did_not_have_has_changed},
		{.test = failure_is_told},
		{.test = granularity_is_that_of_the_backing},
		{.test = number_is_limited},
		{0},
	};

	return suite_run("native", cases);
}
