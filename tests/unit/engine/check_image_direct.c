/* SPDX-License-Identifier: BSD-3-Clause */
/* Direct I/O of an image is switched on and off while it is in use. */
#include "engine/image/image.h"
#include "engine/image/image_status.h"

#include "tests/lib/suite.h"
#include "tests/unit/fake_image.h"
#include "tests/unit/log_capture.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct fake_image disk;
static char *error;

static void
open_with(const struct fake_facts *facts)
{
	log_capture_begin();
	fake_image_open(&disk, facts);
}

static void
open_direct(void)
{
	open_with(&(struct fake_facts){.align = 512});
}

static void
close_disk(void)
{
	free(error);
	error = NULL;
	fake_image_close(&disk);
	log_capture_end();
}

static struct image_status
status_now(void)
{
	struct image_status status;

	image_status(disk.image, &status);
	return status;
}

START_TEST(direct_io_is_switched_off_and_on)
{
	open_direct();
	ck_assert_int_eq(image_set_direct(disk.image, false, &error), 0);
	ck_assert(!image_direct(disk.image));
	ck_assert(!status_now().direct);
	ck_assert_str_eq(status_now().direct_reason, "switched off");
	ck_assert_int_eq(image_set_direct(disk.image, false, &error), 0);
	ck_assert_int_eq(image_set_direct(disk.image, true, &error), 0);
	ck_assert(status_now().direct);
	ck_assert_str_eq(status_now().direct_reason, "");
	close_disk();
}
END_TEST

static void
assert_not_possible(const char *reason)
{
	ck_assert_int_eq(image_set_direct(disk.image, true, &error), -EINVAL);
	ck_assert_msg(strncmp(error, "disk.img: direct I/O is not possible: ", 38) == 0 &&
			      strstr(error, reason),
		      "%s", error);
	ck_assert(!image_direct(disk.image));
	close_disk();
}

START_TEST(direct_io_stays_off_where_the_rule_forbids_it)
{
	open_with(&(struct fake_facts){.align = 0});
	strcpy(disk.image->backing.direct_reason, "the file system does not support it");
	assert_not_possible("the file system does not support it");
	open_with(&(struct fake_facts){.align = 4096, .buffered = true});
	disk.image->sector_size = 512;
	assert_not_possible("sector-size=512 is smaller than the 4096-byte blocks");
	open_with(&(struct fake_facts){.align = 512, .buffered = true, .offset = 100, .size = 512});
	assert_not_possible("offset=100 is not a multiple");
}
END_TEST

START_TEST(write_back_that_fails_keeps_direct_io_off_and_fails_later_flushes)
{
	int fd, saved;

	open_with(&(struct fake_facts){.align = 512, .buffered = true});
	saved = disk.image->backing.fd;
	fd = open("/proc/version", O_RDONLY | O_CLOEXEC); /* fsync() fails on it */
	ck_assert_int_ge(fd, 0);
	disk.image->backing.fd = fd;
	ck_assert_int_eq(image_set_direct(disk.image, true, &error), -EINVAL);
	disk.image->backing.fd = saved;
	close(fd);
	ck_assert_str_eq(
		error,
		"disk.img: writing back buffered data failed: Invalid argument; direct I/O stays off");
	ck_assert(!image_direct(disk.image));
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_FLUSH, 0, 0, 0, NULL), -EIO);
	close_disk();
}
END_TEST

static void *
set_direct(void *on)
{
	char *ignored = NULL;

	ck_assert_int_eq(image_set_direct(disk.image, on != NULL, &ignored), 0);
	return NULL;
}

static void
sleep_ms(unsigned int ms)
{
	nanosleep(&(struct timespec){.tv_nsec = (long)ms * 1000000}, NULL);
}

/* Switches while a write and a read are in flight: it must wait for the write only. */
static void
switch_with_write_in_flight(bool on)
{
	unsigned char *buffer = buffer_new(1024, 0);
	struct test_io write, read_, later;
	struct ioctx *other;
	pthread_t thread;

	open_with(&(struct fake_facts){.align = 512, .buffered = on});
	ck_assert_int_eq(ioctx_new(disk.image, &other), 0);
	disk.fake.held = 1u << CHUNK_WRITE | 1u << CHUNK_READ;
	memcpy(buffer, disk.model, 1024);
	test_io_submit(disk.ctx, &write, IO_WRITE, 0, 0, 1024, buffer);
	test_io_submit(disk.ctx, &read_, IO_READ, 0, 0, 1024, buffer);
	ioctx_run(disk.ctx, false);
	ck_assert_int_eq(pthread_create(&thread, NULL, set_direct, on ? &disk : NULL), 0);
	while (atomic_load(&disk.image->ranges->contended) == 0)
		sleep_ms(1);
	test_io_submit(other, &later, IO_WRITE, 0, 65536, 1024, disk.model + 65536);
	ioctx_run(other, false);
	sleep_ms(20);
	ck_assert_int_eq(image_direct(disk.image), !on);
	ck_assert_uint_eq(fake_in_flight(&disk.fake, 0), 2); /* `later` waits */
	ck_assert_int_eq(status_now().direct, !on);          /* the status does not wait */

	fake_release(&disk.fake, 0);
	ck_assert_int_eq(test_io_finish(disk.ctx, &write), 0);
	pthread_join(thread, NULL); /* while the read is in flight */
	ck_assert_int_eq(image_direct(disk.image), on);
	fake_release_all(&disk.fake);
	ck_assert_int_eq(test_io_finish(disk.ctx, &read_), 0);
	ck_assert_int_eq(test_io_finish(other, &later), 0);
	ck_assert_int_eq(disk.fake.events[2].direct, on);
	fake_image_compare(&disk);
	ioctx_free(other);
	buffer_free(buffer);
	close_disk();
}

START_TEST(switch_to_direct_io_waits_for_writes_under_way_and_holds_up_new_ones)
{
	switch_with_write_in_flight(true);
}
END_TEST

START_TEST(switch_from_direct_io_waits_for_writes_under_way_and_holds_up_new_ones)
{
	switch_with_write_in_flight(false);
}
END_TEST

START_TEST(switch_to_what_is_already_so_waits_for_nobody)
{
	unsigned char *buffer = buffer_new(512, 0);
	struct test_io write_;

	open_direct();
	disk.fake.held = 1u << CHUNK_WRITE;
	test_io_submit(disk.ctx, &write_, IO_WRITE, 0, 0, 512, buffer);
	ioctx_run(disk.ctx, false);
	ck_assert_int_eq(image_set_direct(disk.image, true, &error), 0);
	fake_release_all(&disk.fake);
	ck_assert_int_eq(test_io_finish(disk.ctx, &write_), 0);
	buffer_free(buffer);
	close_disk();
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "direct"},
		{.test = direct_io_is_switched_off_and_on},
		{.test = direct_io_stays_off_where_the_rule_forbids_it},
		{.test = write_back_that_fails_keeps_direct_io_off_and_fails_later_flushes},
		{.test = switch_to_direct_io_waits_for_writes_under_way_and_holds_up_new_ones},
		{.test = switch_from_direct_io_waits_for_writes_under_way_and_holds_up_new_ones},
		{.test = switch_to_what_is_already_so_waits_for_nobody},
		{0},
	};

	return suite_run("image_direct", cases);
}
