/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The image of a removed export is closed while its disk doesn't answer: the main thread, which
 * accepts the clients of other exports, goes on.  The disk is a posix_fadvise() that waits.
 */
#include "server/exports/exports.h"

#include "common/cleanup.h"
#include "engine/io/image_state.h"
#include "server/exports/export_changes.h"
#include "tests/lib/suite.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/statfs.h>
#include <unistd.h>

#define SIZE (64u << 10)

static _Atomic unsigned int sweeps, wakes;
static _Atomic bool disk_waits;

/* In place of the C library's, which waits for room in the disk's queue. */
int
posix_fadvise(int fd, off_t offset, off_t length, int advice)
{
	(void)fd;
	(void)offset;
	(void)length;
	if (advice != POSIX_FADV_DONTNEED)
		return 0;
	atomic_fetch_add(&sweeps, 1);
	while (atomic_load(&disk_waits))
		usleep(1000);
	return 0;
}

/* Why scratch files have no page-cache=drop, or NULL. */
static const char *
no_sweeper(void)
{
	int CLEANUP_CLOSE fd = scratch_try_file(SIZE);
	struct statfs system = {0};

	if (fd >= 0 && fstatfs(fd, &system) == 0 && system.f_type != TMPFS_MAGIC)
		return NULL;
	return "the file system of $TMPDIR, or of the current directory, is in memory";
}

static struct exports *exports;
static struct worker worker;
static struct worker_config worker_config;
static struct server_config config;
static int file;

static void
wake(void *data)
{
	(void)data;
	atomic_fetch_add(&wakes, 1);
}

static void
begin(void)
{
	ck_assert_int_eq(config_init(&config), 0);
	file = scratch_file(SIZE);
	exports = exports_new(&worker, 1, wake, NULL);
	ck_assert_ptr_nonnull(exports);
	worker_config = (struct worker_config){
		.exports = exports,
		.left = exports_left,
		.forgotten = exports_forgotten,
		.memory_limit = (size_t)32 << 20,
	};
	ck_assert_int_eq(worker_start(&worker, 0, &worker_config), 0);
}

static void
end(void)
{
	worker_join(&worker);
	exports_free(exports);
	config_fini(&config);
	close(file);
}

static void
choose(struct export_config *export, const char *name, const char *value)
{
	char *error = NULL;

	ck_assert_int_eq(option_set(export_option_rows(), export, name, value, &error), 0);
}

static void
add_swept(void)
{
	struct export_config *added;
	char path[SCRATCH_PATH], *error = NULL;

	ck_assert_int_eq(config_add_export(&config, "disk", &added, &error), 0);
	config.exports = NULL;
	choose(added, "file", scratch_path(file, path));
	choose(added, "direct-io", "off");
	choose(added, "page-cache", "drop");
	ck_assert_msg(exports_add(exports, added, &error) == 0, "%s", error ? error : "");
}

static void
begin_sweep_that_waits(void)
{
	atomic_store(&disk_waits, true);
	sweeper_touch(exports->listed->export->image->sweeper, SWEEP_PAGES);
	for (unsigned int i = 0; atomic_load(&sweeps) == 0; i++) {
		ck_assert_uint_lt(i, 1000);
		usleep(5000);
	}
}

START_TEST(reaping_does_not_wait_for_the_disk_of_a_removed_export)
{
	add_swept();
	begin_sweep_that_waits();
	ck_assert_int_eq(exports_remove(exports, "disk"), 0);
	for (unsigned int i = 0; exports->retired; i++) {
		ck_assert_uint_lt(i, 1000);
		exports_reap(exports);
		usleep(5000);
	}
	ck_assert_ptr_nonnull(exports->closing);
	atomic_store(&disk_waits, false);
}
END_TEST

static void *
end_waiting(void *data)
{
	usleep(300000);
	atomic_store(&disk_waits, false);
	return data;
}

START_TEST(same_image_is_added_once_it_is_closed)
{
	pthread_t disk;

	add_swept();
	begin_sweep_that_waits();
	ck_assert_int_eq(exports_remove(exports, "disk"), 0);
	ck_assert_int_eq(pthread_create(&disk, NULL, end_waiting, NULL), 0);
	add_swept();
	pthread_join(disk, NULL);
}
END_TEST

START_TEST(closed_image_leaves_nothing_after_the_next_reaping)
{
	add_swept();
	ck_assert_int_eq(exports_remove(exports, "disk"), 0);
	for (unsigned int i = 0; exports->retired || exports->closing; i++) {
		ck_assert_uint_lt(i, 1000);
		exports_reap(exports);
		usleep(5000);
	}
}
END_TEST

int
main(void)
{
	const char *reason = no_sweeper();
	const struct suite_row cases[] = {
		{.name = "closing", .begin = begin, .end = end},
		{.test = reaping_does_not_wait_for_the_disk_of_a_removed_export, .reason = reason},
		{.test = same_image_is_added_once_it_is_closed, .reason = reason},
		{.test = closed_image_leaves_nothing_after_the_next_reaping, .reason = reason},
		{0},
	};

	return suite_run("closing", cases);
}
