/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A checkpoint sees the changes through all images of its file, and those of all threads.
 */
#include "engine/changes/checkpoint.h"

#include "engine/image/freeze.h"
#include "engine/io/image_state.h"
#include "engine/io/observer.h"

#include "tests/lib/suite.h"
#include "tests/unit/engine/changed_run.h"
#include "tests/unit/fake_image.h"
#include "tests/unit/log_capture.h"

#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KIB     1024u
#define MIB     (1u << 20)
#define GRANULE CHECKPOINT_GRANULE_MIN

static struct fake_image disk;
static struct checkpoints *set;
static unsigned char *bytes; /* 1 MiB to be written, page-aligned */

static void
open_with(const struct fake_facts *facts)
{
	log_capture_begin();
	fake_image_open(&disk, facts);
	bytes = buffer_new(MIB, 0);
	buffer_fill(bytes, MIB, 2);
	set = checkpoints_new(disk.image);
	ck_assert_ptr_nonnull(set);
}

static void
close_disk(void)
{
	checkpoints_free(set);
	buffer_free(bytes);
	fake_image_close(&disk);
	log_capture_end();
}

static void
begin(const char *name)
{
	char *error;

	ck_assert_int_eq(checkpoints_begin(&set, 1, name, GRANULE, &error), 0);
	ck_assert_ptr_null(error);
}

static void
end(const char *name)
{
	char *error;

	ck_assert_int_eq(checkpoints_end(&set, 1, name, &error), 0);
}

static struct checkpoint *
hold(struct checkpoints *of, const char *name)
{
	struct checkpoint_facts facts;
	struct checkpoint *checkpoint;

	for (size_t n = 0; checkpoints_at(of, n, &facts); n++) {
		if (strcmp(facts.name, name) != 0)
			continue;
		checkpoint = checkpoint_hold(of, facts.id);
		ck_assert_ptr_nonnull(checkpoint);
		return checkpoint;
	}
	ck_abort_msg("there is no checkpoint %s", name);
}

static void
change(enum io_op op, uint64_t offset, uint64_t length)
{
	ck_assert_int_eq(test_io_execute(disk.ctx, op, 0, offset, length, bytes + offset), 0);
}

/* `length` bytes at `offset` are changed, and the bytes beside them are not. */
static void
assert_run(const char *name, uint64_t offset, uint64_t length, bool changed)
{
	struct checkpoint *checkpoint = hold(set, name);
	uint64_t run;

	ck_assert_int_eq(changed_run(checkpoint, offset, UINT64_MAX, &run), changed);
	ck_assert_uint_eq(run, offset + length);
	if (offset > 0)
		ck_assert_int_ne(changed_run(checkpoint, offset - 1, UINT64_MAX, &run), changed);
	checkpoint_release(checkpoint);
}

static uint64_t
sum_of(const struct checkpoint *checkpoint, uint64_t size)
{
	uint64_t sum = 0, run;

	for (uint64_t at = 0; at < size; at = run)
		sum += changed_run(checkpoint, at, size, &run) == 1 ? run - at : 0;
	return sum;
}

static void
assert_changed(const char *name, uint64_t sum)
{
	struct checkpoint *checkpoint = hold(set, name);

	ck_assert_uint_eq(sum_of(checkpoint, image_size(disk.image)), sum);
	checkpoint_release(checkpoint);
}

/* ---- changes */

START_TEST(window_with_an_offset_is_counted_from_its_start)
{
	open_with(&(struct fake_facts){.offset = 64 * KIB + 512, .size = 256 * KIB});
	begin("one");
	change(IO_WRITE, 4 * KIB, 4 * KIB);
	assert_run("one", 4 * KIB, GRANULE, true);
	assert_changed("one", GRANULE);
	close_disk();
}
END_TEST

/* Its end is the other image's, and the file has grown again when somebody looks at it. */
START_TEST(end_that_another_image_of_the_file_has_lost_counts)
{
	struct freeze freeze;

	open_with(&(struct fake_facts){.offset = 64 * KIB, .size = 256 * KIB});
	begin("one");
	ck_assert_int_eq(freeze_begin(&freeze, &disk.image, 1), 0);
	observers_tell_end(disk.image->ranges, 64 * KIB + 192 * KIB);
	freeze_end(&freeze);
	assert_changed("one", 64 * KIB);
	ck_assert_int_eq(freeze_begin(&freeze, &disk.image, 1), 0);
	observers_tell_end(disk.image->ranges, KIB);
	freeze_end(&freeze);
	assert_changed("one", 256 * KIB);
	close_disk();
}
END_TEST

/* A second image of the same file begins 64 KiB later. */
START_TEST(change_through_another_image_of_the_file_counts)
{
	struct image *other = aligned_alloc(64, sizeof(*other));
	struct checkpoints *others;
	struct checkpoint *checkpoint;
	uint64_t run;
	char *error;

	open_with(&(struct fake_facts){0});
	memcpy(other, disk.image, sizeof(*other));
	other->config.offset = 64 * KIB;
	image_set_size(other, 128 * KIB);
	others = checkpoints_new(other);
	ck_assert_int_eq(checkpoints_begin(&others, 1, "one", GRANULE, &error), 0);
	change(IO_WRITE, 0, 64 * KIB);          /* before it */
	change(IO_WRITE, 192 * KIB, 4 * KIB);   /* after it */
	change(IO_WRITE, 60 * KIB, 12 * KIB);   /* over its start */
	change(IO_WRITE, 188 * KIB, 100 * KIB); /* over its end */
	checkpoint = hold(others, "one");
	ck_assert_uint_eq(sum_of(checkpoint, 128 * KIB), 12 * KIB);
	ck_assert_int_eq(changed_run(checkpoint, 0, UINT64_MAX, &run), true);
	ck_assert_uint_eq(run, 8 * KIB);
	checkpoint_release(checkpoint);
	checkpoints_free(others);
	free(other);
	close_disk();
}
END_TEST

/* ---- all at once */

#define WRITERS 2
#define SLOTS   (MIB / GRANULE)

struct writer {
	pthread_t thread;
	struct ioctx *ctx;
	unsigned int number;
	_Atomic bool *stop;
	_Atomic uint64_t *count;
};

/* Each writer changes granules of its own: bytes that are equal by chance must not hide a change.
 */
static void *
change_on_and_on(void *data)
{
	static const enum io_op ops[] = {IO_WRITE, IO_WRITE, IO_ZERO, IO_DISCARD};
	struct writer *writer = data;
	unsigned int seed = writer->number;
	unsigned char *own = buffer_new(GRANULE, 0);

	while (!*writer->stop) {
		uint64_t slot = (uint64_t)rand_r(&seed) % (SLOTS / WRITERS) * WRITERS;
		enum io_op op = ops[rand_r(&seed) % 4];

		buffer_fill(own, GRANULE, (uint32_t)rand_r(&seed));
		ck_assert_int_eq(test_io_execute(writer->ctx, op, 0,
						 (slot + writer->number) * GRANULE, GRANULE, own),
				 0);
		atomic_fetch_add(writer->count, 1);
	}
	buffer_free(own);
	return NULL;
}

/* What differs from `old`, which was read after the moment began, is told as changed. */
static void
assert_never_too_little(const unsigned char *old, unsigned char *now)
{
	struct checkpoint *checkpoint = hold(set, "moment");
	uint64_t run;

	/* First the bytes, then the marks: those of bytes that are changed meanwhile. */
	ck_assert_int_eq(pread(disk.image->backing.fd, now, MIB, 0), MIB);
	for (uint64_t slot = 0; slot < SLOTS; slot++) {
		if (memcmp(old + slot * GRANULE, now + slot * GRANULE, GRANULE) != 0)
			ck_assert_int_eq(changed_run(checkpoint, slot * GRANULE, MIB, &run), true);
	}
	ck_assert_int_eq(changed_run_error(checkpoint), 0);
	checkpoint_release(checkpoint);
}

static void
wait_for_changes(_Atomic uint64_t *count, uint64_t more)
{
	uint64_t target = *count + more;

	while (*count < target)
		sched_yield();
}

START_TEST(marks_are_never_too_few_while_several_write)
{
	unsigned char *old = malloc(MIB), *now = malloc(MIB);
	struct writer writers[WRITERS];
	_Atomic uint64_t count = 0;
	_Atomic bool stop = false;

	open_with(&(struct fake_facts){0});
	disk.fake.order = FAKE_RANDOM;
	for (unsigned int i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){.number = i, .stop = &stop, .count = &count};
		ck_assert_int_eq(ioctx_new(disk.image, &writers[i].ctx), 0);
		pthread_create(&writers[i].thread, NULL, change_on_and_on, &writers[i]);
	}
	for (unsigned int round = 0; round < 20; round++) {
		begin("moment");
		ck_assert_int_eq(pread(disk.image->backing.fd, old, MIB, 0), MIB);
		wait_for_changes(&count, 1 + round * 3);
		assert_never_too_little(old, now);
		end("moment");
	}
	stop = true;
	for (unsigned int i = 0; i < WRITERS; i++) {
		pthread_join(writers[i].thread, NULL);
		ioctx_free(writers[i].ctx);
	}
	free(old);
	free(now);
	close_disk();
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "changes"},
		{.test = window_with_an_offset_is_counted_from_its_start},
		{.test = end_that_another_image_of_the_file_has_lost_counts},
		{.test = change_through_another_image_of_the_file_counts},
		{.name = "model"},
		{.test = marks_are_never_too_few_while_several_write},
		{0},
	};

	return suite_run("checkpoint_sharing", cases);
}
