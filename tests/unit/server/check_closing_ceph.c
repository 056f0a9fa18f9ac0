/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of exports whose images are in Ceph.  Here they are files in memory, whose kind of
 * backing tells what one of Ceph would tell.
 */
#include "server/exports/exports.h"

#include "common/container_of.h"
#include "engine/backing/file/file.h"
#include "engine/io/image_state.h"
#include "engine/io/range.h"
#include "server/daemon/leave.h"
#include "server/exports/export_changes.h"
#include "server/exports/export_image.h"
#include "tests/lib/suite.h"
#include "tests/unit/log_capture.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE   (64u << 10)
#define IMAGES 8

/* Microseconds that it takes to close an image: all together take longer than the server waits for
 * one. */
#define CLOSING 300000

static struct exports *exports;
static struct worker worker;
static struct worker_config worker_config;
static struct server_config config;
static struct backing_kind kind;
static int files[IMAGES];
static unsigned int opened;
static _Atomic unsigned int closed;
static _Atomic bool cluster_waits;
static struct leave leave;
static struct pid_file pid_file = {.fd = -1};

/* ---- the kind */

static _Atomic bool observed_at_the_end;
static struct size_follower *second; /* that of the second image */

static void
follow_size(const struct backing *backing, struct size_follower *follower)
{
	(void)backing;
	(void)follower;
}

/* Who tells of a new size may just be about to use the checkpoints, which observe the image. */
static void
unfollow_size(const struct backing *backing, struct size_follower *follower)
{
	const struct image *image = container_of(backing, struct image, backing);

	(void)follower;
	atomic_store(&observed_at_the_end, image->ranges->observers != NULL);
}

static bool
may_be_left(const struct backing *backing)
{
	(void)backing;
	return true;
}

static int64_t
tell_larger(const struct backing *backing)
{
	(void)backing;
	return 2 * SIZE;
}

/* The others that were opened for it have no path. */
static void
close_file(struct backing *backing)
{
	if (backing->path)
		atomic_fetch_add(&closed, 1);
	backing_file.close(backing);
}

static void
close_late(struct backing *backing)
{
	while (atomic_load(&cluster_waits))
		usleep(1000);
	close_file(backing);
}

static void
close_slowly(struct backing *backing)
{
	if (backing->path)
		usleep(CLOSING);
	close_file(backing);
}

/* The second image grows while the first one is being closed. */
static void
close_while_another_grows(struct backing *backing)
{
	if (backing->path && atomic_load(&closed) == 0)
		ck_assert(second->resized(second->data, false));
	close_file(backing);
}

/* ---- exports */

static void
wake(void *data)
{
	(void)data;
}

static void
begin(void)
{
	log_capture_begin();
	ck_assert_int_eq(config_init(&config), 0);
	kind = backing_file;
	kind.follow_size = follow_size;
	kind.unfollow_size = unfollow_size;
	kind.told_size = tell_larger;
	kind.may_be_left = may_be_left;
	kind.close = close_late;
	opened = 0;
	atomic_store(&closed, 0);
	for (unsigned int i = 0; i < IMAGES; i++)
		files[i] = scratch_memory_file(SIZE);
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
	ck_assert_uint_eq(atomic_load(&closed), opened);
	leave_end(&leave);
	config_fini(&config);
	for (unsigned int i = 0; i < IMAGES; i++)
		close(files[i]);
	log_capture_end();
}

static void
choose(struct export_config *export, const char *name, const char *value)
{
	char *error = NULL;

	ck_assert_int_eq(option_set(export_option_rows(), export, name, value, &error), 0);
}

static void
add(const char *name, unsigned int file)
{
	struct export_config *added;
	struct export *export;
	char path[SCRATCH_PATH], *error = NULL;

	ck_assert_int_eq(config_add_export(&config, name, &added, &error), 0);
	config.exports = NULL;
	choose(added, "file", scratch_path(files[file], path));
	choose(added, "changes", "none");
	ck_assert_msg(exports_add(exports, added, &error) == 0, "%s", error ? error : "");
	export = (*exports_find(exports, name, strlen(name)))->export;
	export->image->backing.kind = &kind;
	exports_follow_size(export);
	if (++opened == 2)
		second = &export->image->follower;
}

static void
remove_and_reap(const char *name)
{
	ck_assert_int_eq(exports_remove(exports, name), 0);
	for (unsigned int i = 0; exports->retired; i++) {
		ck_assert_uint_lt(i, 1000);
		exports_reap(exports);
		usleep(5000);
	}
}

START_TEST(new_size_is_not_followed_into_freed_checkpoints)
{
	char *error = NULL;

	add("disk", 0);
	ck_assert_int_eq(exports_begin_checkpoint(exports, "disk", "monday", 4096, &error), 0);
	remove_and_reap("disk");
	while (exports->closing) {
		exports_reap(exports);
		usleep(1000);
	}
	ck_assert(atomic_load(&observed_at_the_end));
}
END_TEST

START_TEST(image_that_is_being_closed_may_be_left_too)
{
	ck_assert(!exports_may_be_left(exports));
	add("disk", 0);
	add("other", 1);
	ck_assert(exports_may_be_left(exports));
	atomic_store(&cluster_waits, true);
	remove_and_reap("disk");
	ck_assert(exports_may_be_left(exports));
	remove_and_reap("other");
	ck_assert_ptr_nonnull(exports->closing);
	ck_assert(exports_may_be_left(exports));
	atomic_store(&cluster_waits, false);
}
END_TEST

START_TEST(image_that_is_being_closed_and_not_in_ceph_is_waited_for)
{
	add("disk", 0);
	add("other", 1);
	kind.may_be_left = NULL;
	atomic_store(&cluster_waits, true);
	remove_and_reap("disk");
	kind.may_be_left = may_be_left;
	ck_assert(!exports_may_be_left(exports));
	atomic_store(&cluster_waits, false);
}
END_TEST

/* The process would exit in end(). */
START_TEST(images_that_are_closed_one_by_one_are_not_left)
{
	char name[16];

	kind.close = close_slowly;
	for (unsigned int i = 0; i < IMAGES; i++) {
		snprintf(name, sizeof(name), "disk%u", i);
		add(name, i);
	}
	leave_begin(&leave, exports, &pid_file, EXIT_FAILURE);
	ck_assert(leave.started);
}
END_TEST

/* It was offered anew then, in the list of those that were being freed: it and the third one stayed
 * open. */
START_TEST(new_size_at_the_end_is_offered_no_more)
{
	kind.close = close_while_another_grows;
	add("disk", 0);
	add("second", 1);
	add("third", 2);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "closing_ceph", .begin = begin, .end = end},
		{.test = new_size_is_not_followed_into_freed_checkpoints},
		{.test = image_that_is_being_closed_may_be_left_too},
		{.test = image_that_is_being_closed_and_not_in_ceph_is_waited_for},
		{.test = images_that_are_closed_one_by_one_are_not_left},
		{.test = new_size_at_the_end_is_offered_no_more},
		{0},
	};

	return suite_run("closing_ceph", cases);
}
