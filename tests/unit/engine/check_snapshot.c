/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Snapshots of an image: what becomes of an image whose disk fails while one is made, and of a
 * snapshot whose image changes its size.
 */
#include "engine/snapshot/snapshot.h"

#include "engine/backing/kind.h"
#include "tests/lib/suite.h"
#include "tests/unit/fake_image.h"
#include "tests/unit/log_capture.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <errno.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What is left of the image, in bytes. */
#define CUT (512u << 10)

static char directory[SCRATCH_PATH];
static struct fake_image disk;
static struct snapshot_order order;

/* A file system that can clone a part of a file, but fails to clone a whole one, and whose disk
 * fails. */
static bool clones;
static int sync_error; /* errno; 0: syncs succeed */

int
ioctl(int fd, unsigned long request, ...)
{
	va_list values;
	void *value;

	va_start(values, request);
	value = va_arg(values, void *);
	va_end(values);
	if (clones && request == FICLONERANGE)
		return 0;
	if (request == FICLONERANGE || request == FICLONE) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return (int)syscall(SYS_ioctl, fd, request, value);
}

int
fdatasync(int fd)
{
	if (fd != disk.image->backing.fd || !sync_error)
		return 0;
	errno = sync_error;
	return -1;
}

/* ---- */

static void
begin(void)
{
	scratch_directory_new(directory);
	fake_image_open(&disk, &(struct fake_facts){0});
	log_capture_begin();
}

static void
end(void)
{
	log_capture_end();
	fake_image_close(&disk);
	scratch_directory_remove(directory);
	clones = false;
	sync_error = 0;
}

static void
take(void)
{
	const struct snapshot_wish wish = {.scratch = directory};
	char *error = NULL;

	order = (struct snapshot_order){.image = disk.image, .name = "then"};
	ck_assert_msg(snapshots_take(&order, 1, &wish, &error) == 0, "%s", error);
}

/* The kernel tells it to one flush only, and that one may be this. */
START_TEST(write_back_that_fails_before_a_clone_is_told_to_later_flushes)
{
	clones = true;
	sync_error = EIO;
	take();
	sync_error = 0;
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_FLUSH, 0, 0, 0, NULL), -EIO);
	image_close(order.snapshot);
}
END_TEST

/* Truncated, and told so; then it has its old size, and zeroes at its end. */
static void
shrink_and_grow(void)
{
	const int fd = disk.image->backing.fd;
	char *error = NULL;

	ck_assert_int_eq(ftruncate(fd, CUT), 0);
	ck_assert_int_eq(image_resize(disk.image, &error), 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)disk.file_size), 0);
	ck_assert_int_eq(image_resize(disk.image, &error), 0);
}

START_TEST(copy_of_an_image_that_was_truncated_is_broken)
{
	struct snapshot_facts facts;
	char bytes[512];

	take();
	shrink_and_grow();
	snapshot_facts(order.snapshot, &facts);
	ck_assert_str_eq(facts.broken, "the image was truncated to 524288 bytes");
	ck_assert_int_lt(order.snapshot->backing.kind->read(&order.snapshot->backing, false, bytes,
							    sizeof(bytes), CUT),
			 0);
	image_close(order.snapshot);
}
END_TEST

/* Then the image has no place in it. */
START_TEST(copy_of_an_image_whose_file_was_emptied_is_broken)
{
	struct snapshot_facts facts;
	char *error = NULL;

	take();
	disk.image->config.offset = 4096;
	ck_assert_int_eq(ftruncate(disk.image->backing.fd, 0), 0);
	ck_assert_int_lt(image_resize(disk.image, &error), 0);
	free(error);
	ck_assert_int_eq(ftruncate(disk.image->backing.fd, (off_t)disk.file_size), 0);
	snapshot_facts(order.snapshot, &facts);
	ck_assert_str_eq(facts.broken, "the image was truncated to 0 bytes");
	image_close(order.snapshot);
}
END_TEST

START_TEST(copy_of_an_image_that_was_truncated_lasts_if_it_has_the_rest)
{
	const size_t length = disk.file_size - CUT;
	unsigned char *bytes = buffer_new(length, 0);
	struct snapshot_facts facts;

	take();
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_WRITE, 0, CUT, length, bytes), 0);
	shrink_and_grow();
	snapshot_facts(order.snapshot, &facts);
	ck_assert_str_eq(facts.broken, "");
	ck_assert_int_eq(order.snapshot->backing.kind->read(&order.snapshot->backing, false, bytes,
							    length, CUT),
			 (int)length);
	ck_assert_int_eq(memcmp(bytes, disk.model + CUT, length), 0);
	buffer_free(bytes);
	image_close(order.snapshot);
}
END_TEST

START_TEST(image_that_other_servers_may_change_is_cloned_or_refused)
{
	const struct snapshot_wish wish = {.scratch = directory};
	char *error = NULL;

	order = (struct snapshot_order){.image = disk.image, .name = "snap"};
	disk.image->config.lock = LOCK_SHARED;
	ck_assert_int_eq(snapshots_take(&order, 1, &wish, &error), -EBUSY);
	ck_assert_ptr_nonnull(strstr(error, "a snapshot needs a file system that clones files"));
	ck_assert_ptr_null(order.snapshot);
	free(error);
	/* That one fails to clone after all. */
	clones = true;
	ck_assert_int_eq(snapshots_take(&order, 1, &wish, &error), -EBUSY);
	ck_assert_ptr_null(order.snapshot);
	free(error);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "snapshot", .begin = begin, .end = end},
		{.test = write_back_that_fails_before_a_clone_is_told_to_later_flushes},
		{.test = image_that_other_servers_may_change_is_cloned_or_refused},
		{.test = copy_of_an_image_that_was_truncated_is_broken},
		{.test = copy_of_an_image_whose_file_was_emptied_is_broken},
		{.test = copy_of_an_image_that_was_truncated_lasts_if_it_has_the_rest},
		{0},
	};

	return suite_run("snapshot", cases);
}
