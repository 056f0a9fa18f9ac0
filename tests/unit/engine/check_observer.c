/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each change passes the file's observers after it has its range and before it is planned, and
 * waits as long as one of them wants.
 */
#include "engine/io/observer.h"

#include "engine/image/freeze.h"
#include "tests/lib/suite.h"
#include "tests/unit/fake_image.h"
#include "tests/unit/log_capture.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KIB  1024u
#define MIB  (1u << 20)

#define SEEN 16

/* An observer that notes changes, and lets them wait if the test wants. */
struct witness {
	struct observer observer;
	_Atomic bool stops;
	_Atomic unsigned int places; /* taken in .seen */
	_Atomic unsigned int count;  /* noted */
	struct range *seen[SEEN];    /* the first ones */
	uint64_t start[SEEN], end[SEEN];
	unsigned int planned; /* chunks that the backend had got when the last change came */
};

static struct fake_image disk;
static struct witness witness, other;
static unsigned char *bytes; /* 1 MiB to be written, page-aligned */

static bool
note(struct observer *observer, struct range *range)
{
	struct witness *self = container_of(observer, struct witness, observer);
	unsigned int i = atomic_fetch_add(&self->places, 1);

	if (i < SEEN) {
		self->seen[i] = range;
		self->start[i] = range->start;
		self->end[i] = range->end;
	}
	atomic_fetch_add(&self->count, 1);
	return !self->stops;
}

/* For tests of one thread. */
static bool
note_planned(struct observer *observer, struct range *range)
{
	container_of(observer, struct witness, observer)->planned = disk.fake.event_count;
	return note(observer, range);
}

static void
watch(struct image *image, struct witness *self)
{
	struct freeze freeze;

	ck_assert_int_eq(freeze_begin(&freeze, &image, 1), 0);
	*self = (struct witness){.observer.change = note};
	observer_add(image->ranges, &self->observer);
	freeze_end(&freeze);
}

static void
unwatch(struct image *image, struct witness *self)
{
	struct freeze freeze;

	ck_assert_int_eq(freeze_begin(&freeze, &image, 1), 0);
	observer_remove(image->ranges, &self->observer);
	freeze_end(&freeze);
}

static void
open_with(const struct fake_facts *facts)
{
	log_capture_begin();
	fake_image_open(&disk, facts);
	bytes = buffer_new(MIB, 0);
	buffer_fill(bytes, MIB, 2);
	watch(disk.image, &witness);
}

static void
close_disk(void)
{
	unwatch(disk.image, &witness);
	fake_image_compare(&disk);
	buffer_free(bytes);
	fake_image_close(&disk);
	log_capture_end();
}

static void
submit_write(struct ioctx *ctx, struct test_io *op, uint64_t offset, uint64_t length)
{
	test_io_submit(ctx, op, IO_WRITE, 0, offset, length, bytes + offset);
	memcpy(fake_image_at(&disk, offset), bytes + offset, length);
}

static void
assert_seen(const struct witness *self, unsigned int n, uint64_t start, uint64_t end)
{
	ck_assert_uint_gt(self->count, n);
	ck_assert_uint_eq(self->start[n], start);
	ck_assert_uint_eq(self->end[n], end);
}

/* ---- what an observer sees */

START_TEST(observer_sees_each_change_before_it_is_planned)
{
	open_with(&(struct fake_facts){.offset = 64 * KIB});
	witness.observer.change = note_planned;
	for (unsigned int i = 0; i < 3; i++) {
		static const enum io_op ops[] = {IO_WRITE, IO_ZERO, IO_DISCARD};
		uint64_t at = i * 8 * KIB;
		unsigned int before = disk.fake.event_count;

		memset(bytes, 0, 4 * KIB);
		memset(fake_image_at(&disk, at), 0, 4 * KIB);
		ck_assert_int_eq(test_io_execute(disk.ctx, ops[i], 0, at, 4 * KIB, bytes), 0);
		assert_seen(&witness, i, 64 * KIB + at, 68 * KIB + at);
		ck_assert_uint_eq(witness.planned, before);
		ck_assert_uint_gt(disk.fake.event_count, before);
	}
	close_disk();
}
END_TEST

START_TEST(observer_sees_no_read_no_flush_and_no_refused_change)
{
	char byte;

	open_with(&(struct fake_facts){0});
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_READ, 0, 0, 1, &byte), 0);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_FLUSH, 0, 0, 0, NULL), 0);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_WRITE, 0, MIB, 1, &byte), -ENOSPC);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_WRITE, 0, 0, 0, &byte), 0);
	ck_assert_uint_eq(witness.count, 0);
	close_disk();
}
END_TEST

/* The block that is read, modified and written back is in the range that an observer sees. */
START_TEST(observer_sees_whole_blocks_of_direct_io)
{
	struct test_io op;

	open_with(&(struct fake_facts){.align = 512});
	submit_write(disk.ctx, &op, 700, 400);
	ck_assert_int_eq(test_io_finish(disk.ctx, &op), 0);
	assert_seen(&witness, 0, 512, 1536);
	close_disk();
}
END_TEST

START_TEST(observer_is_asked_once_for_a_change_that_waited_for_its_range)
{
	struct ioctx *second;
	struct test_io first, waiting;

	open_with(&(struct fake_facts){0});
	ck_assert_int_eq(ioctx_new(disk.image, &second), 0);
	disk.fake.held = 1u << CHUNK_WRITE;
	submit_write(disk.ctx, &first, 0, 4 * KIB);
	ioctx_run(disk.ctx, false);
	submit_write(second, &waiting, 2 * KIB, 4 * KIB);
	ck_assert_uint_eq(witness.count, 1); /* it has no range yet */
	fake_release_all(&disk.fake);
	ck_assert_int_eq(test_io_finish(disk.ctx, &first), 0);
	ck_assert_int_eq(test_io_finish(second, &waiting), 0);
	ck_assert_uint_eq(witness.count, 2);
	assert_seen(&witness, 1, 2 * KIB, 6 * KIB);
	ioctx_free(second);
	close_disk();
}
END_TEST

START_TEST(part_that_is_tried_again_is_not_seen_again)
{
	struct test_io whole, part;

	open_with(&(struct fake_facts){0});
	fake_fault(&disk.fake, CHUNK_WRITE, 0, 1, -EIO);
	test_io_submit(disk.ctx, &whole, IO_WRITE, IO_KEEP_RANGE, 0, 8 * KIB, bytes);
	ck_assert_int_eq(test_io_finish(disk.ctx, &whole), -EIO);
	memcpy(fake_image_at(&disk, 0), bytes, 4 * KIB);
	part = whole;
	part.io.length = 4 * KIB;
	part.done = 0;
	io_retry_part(&whole.io, &part.io);
	ck_assert_int_eq(test_io_finish(disk.ctx, &part), 0);
	io_release_range(&whole.io);
	ck_assert_uint_eq(witness.count, 1);
	close_disk();
}
END_TEST

/* ---- waiting for an observer */

START_TEST(change_waits_until_the_observer_releases_it_and_others_pass)
{
	struct test_io waiting, passing;

	open_with(&(struct fake_facts){0});
	witness.stops = true;
	submit_write(disk.ctx, &waiting, 0, 4 * KIB);
	witness.stops = false;
	submit_write(disk.ctx, &passing, 8 * KIB, 4 * KIB);
	ck_assert_int_eq(test_io_finish(disk.ctx, &passing), 0);
	ioctx_run(disk.ctx, false);
	ck_assert_uint_eq(waiting.done, 0);
	ck_assert_uint_eq(disk.fake.event_count, 1);
	observer_release(witness.seen[0]);
	ck_assert_int_eq(test_io_finish(disk.ctx, &waiting), 0);
	ck_assert_uint_eq(witness.count, 2);
	close_disk();
}
END_TEST

START_TEST(change_waits_for_one_observer_after_the_other)
{
	struct test_io op;

	open_with(&(struct fake_facts){0});
	watch(disk.image, &other);
	witness.stops = other.stops = true;
	submit_write(disk.ctx, &op, 0, 4 * KIB);
	ck_assert_uint_eq(witness.count + other.count, 1);
	observer_release(other.seen[0]);
	ioctx_run(disk.ctx, false);
	ck_assert_uint_eq(witness.count, 1);
	ck_assert_uint_eq(disk.fake.event_count, 0);
	observer_release(witness.seen[0]);
	ck_assert_int_eq(test_io_finish(disk.ctx, &op), 0);
	ck_assert_uint_eq(other.count, 1);
	unwatch(disk.image, &other);
	close_disk();
}
END_TEST

static bool
unwanted(struct io *io)
{
	(void)io;
	return false;
}

START_TEST(change_whose_client_vanished_meanwhile_is_not_carried_out)
{
	struct test_io op;

	open_with(&(struct fake_facts){0});
	witness.stops = true;
	test_io_submit(disk.ctx, &op, IO_WRITE, 0, 0, 4 * KIB, bytes);
	op.io.wanted = unwanted;
	observer_release(witness.seen[0]);
	ck_assert_int_eq(test_io_finish(disk.ctx, &op), -ECANCELED);
	ck_assert_uint_eq(disk.fake.event_count, 0);
	close_disk();
}
END_TEST

static void *
release_soon(void *data)
{
	(void)data;
	while (witness.count == 0)
		sched_yield();
	observer_release(witness.seen[0]);
	return NULL;
}

/* As the plugin's threads do it. */
START_TEST(thread_that_waits_for_its_change_is_woken_by_the_release)
{
	struct io io = {.op = IO_WRITE, .length = 4 * KIB};
	pthread_t thread;

	open_with(&(struct fake_facts){0});
	io.buffer = bytes;
	memcpy(fake_image_at(&disk, 0), bytes, 4 * KIB);
	witness.stops = true;
	ck_assert_int_eq(pthread_create(&thread, NULL, release_soon, NULL), 0);
	ck_assert_int_eq(ioctx_execute(disk.ctx, &io), 0);
	pthread_join(thread, NULL);
	close_disk();
}
END_TEST

/* ---- the moment at which an observer comes or goes */

#define WRITERS 2

/* Writes a number to its place in one image, then to that in the second one, then the next. */
struct writer {
	pthread_t thread;
	struct ioctx *first, *second;
	uint64_t offset;
	_Atomic bool *stop;
};

static struct fake_image twin;

static void *
count_on_and_on(void *data)
{
	struct writer *writer = data;

	for (uint64_t n = 1; !*writer->stop; n++) {
		ck_assert_int_eq(
			test_io_execute(writer->first, IO_WRITE, 0, writer->offset, sizeof(n), &n),
			0);
		ck_assert_int_eq(
			test_io_execute(writer->second, IO_WRITE, 0, writer->offset, sizeof(n), &n),
			0);
	}
	return NULL;
}

static uint64_t
number_in(const struct fake_image *image, uint64_t offset)
{
	uint64_t n;

	ck_assert_int_eq(pread(image->image->backing.fd, &n, sizeof(n), (off_t)offset),
			 (ssize_t)sizeof(n));
	return n;
}

/* Adds or removes an observer of both images in one moment. Returns the sum of the numbers that are
 * in the images then. */
static uint64_t
change_observers(bool add)
{
	struct image *const images[] = {disk.image, twin.image, disk.image};
	struct freeze freeze;
	uint64_t sum = 0;

	ck_assert_int_eq(freeze_begin(&freeze, images, 3), 0);
	for (unsigned int i = 0; i < WRITERS; i++) {
		uint64_t first = number_in(&disk, i * 64), second = number_in(&twin, i * 64);

		ck_assert_uint_le(second, first);
		ck_assert_uint_le(first, second + 1);
		sum += first + second;
	}
	if (add) {
		observer_add(disk.image->ranges, &other.observer);
		observer_add(twin.image->ranges, &witness.observer);
	} else {
		observer_remove(disk.image->ranges, &other.observer);
		observer_remove(twin.image->ranges, &witness.observer);
	}
	freeze_end(&freeze);
	return sum;
}

static void
start_writers(struct writer *writers, _Atomic bool *stop)
{
	const uint64_t zero = 0;

	for (unsigned int i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){.offset = i * 64, .stop = stop};
		ck_assert_int_eq(pwrite(disk.image->backing.fd, &zero, sizeof(zero), i * 64), 8);
		ck_assert_int_eq(pwrite(twin.image->backing.fd, &zero, sizeof(zero), i * 64), 8);
		ck_assert_int_eq(ioctx_new(disk.image, &writers[i].first), 0);
		ck_assert_int_eq(ioctx_new(twin.image, &writers[i].second), 0);
		pthread_create(&writers[i].thread, NULL, count_on_and_on, &writers[i]);
	}
}

/* Each number that is written to one of two images is either in it at the moment, or seen after it;
 * and what was written to the second image at the moment was in the first one. */
START_TEST(moment_divides_the_changes_of_two_images)
{
	struct writer writers[WRITERS];
	_Atomic bool stop = false;

	log_capture_begin();
	fake_image_open(&disk, &(struct fake_facts){0});
	fake_image_open(&twin, &(struct fake_facts){0});
	disk.fake.order = twin.fake.order = FAKE_RANDOM;
	start_writers(writers, &stop);
	for (unsigned int round = 0; round < 30; round++) {
		uint64_t from, to;

		witness = other = (struct witness){.observer.change = note};
		from = change_observers(true);
		while (witness.count + other.count < 5)
			sched_yield();
		to = change_observers(false);
		ck_assert_uint_eq(witness.count + other.count, to - from);
	}
	stop = true;
	for (unsigned int i = 0; i < WRITERS; i++) {
		pthread_join(writers[i].thread, NULL);
		ioctx_free(writers[i].first);
		ioctx_free(writers[i].second);
	}
	fake_image_close(&twin);
	fake_image_close(&disk);
	log_capture_end();
}
END_TEST

static void *
freeze_and_end(void *data)
{
	_Atomic bool *over = data;
	struct freeze freeze;

	freeze_begin(&freeze, &disk.image, 1);
	freeze_end(&freeze);
	*over = true;
	return NULL;
}

/* And for no other image: a disk that does not answer must not keep all others from a moment, nor
 * from their changes without a limit. */
START_TEST(moment_waits_for_a_change_of_its_image_that_waits_for_an_observer)
{
	_Atomic bool over = false;
	struct freeze freeze;
	pthread_t thread;
	struct test_io op;

	open_with(&(struct fake_facts){0});
	fake_image_open(&twin, &(struct fake_facts){0});
	witness.stops = true;
	submit_write(disk.ctx, &op, 0, 4 * KIB);
	pthread_create(&thread, NULL, freeze_and_end, &over);
	while ((atomic_load(&disk.image->ranges->contended) & ~RANGE_WATCH) == 0)
		sched_yield();
	freeze_begin(&freeze, &twin.image, 1);
	freeze_end(&freeze);
	ck_assert_int_eq(freeze_begin(&freeze, (struct image *const[]){twin.image, disk.image}, 2),
			 -ETIMEDOUT);
	ck_assert_uint_eq(atomic_load(&twin.image->ranges->contended), 0);
	ck_assert(!over);
	observer_release(witness.seen[0]);
	ck_assert_int_eq(test_io_finish(disk.ctx, &op), 0);
	pthread_join(thread, NULL);
	ck_assert(over);
	fake_image_close(&twin);
	close_disk();
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "sees"},
		{.test = observer_sees_each_change_before_it_is_planned},
		{.test = observer_sees_no_read_no_flush_and_no_refused_change},
		{.test = observer_sees_whole_blocks_of_direct_io},
		{.test = observer_is_asked_once_for_a_change_that_waited_for_its_range},
		{.test = part_that_is_tried_again_is_not_seen_again},
		{.name = "waits"},
		{.test = change_waits_until_the_observer_releases_it_and_others_pass},
		{.test = change_waits_for_one_observer_after_the_other},
		{.test = change_whose_client_vanished_meanwhile_is_not_carried_out},
		{.test = thread_that_waits_for_its_change_is_woken_by_the_release},
		{.name = "moment"},
		{.test = moment_divides_the_changes_of_two_images},
		{.test = moment_waits_for_a_change_of_its_image_that_waits_for_an_observer},
		{0},
	};

	return suite_run("observer", cases);
}
