/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes and status of an image that is being served.
 */
#include "engine/image/image.h"

#include "engine/backing/kind.h"
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

#define MIB (1u << 20)

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

/* ---- Size */

static void
assert_resized(uint64_t file_size, uint64_t size, unsigned int warnings)
{
	log_capture_begin();
	ck_assert_int_eq(ftruncate(disk.image->backing.fd, (off_t)file_size), 0);
	ck_assert_int_eq(image_resize(disk.image, &error), 0);
	ck_assert_uint_eq(image_size(disk.image), size);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), warnings);
}

START_TEST(new_size_of_the_file_is_taken_up)
{
	open_with(&(struct fake_facts){.offset = 4096, .align = 512});
	assert_resized(2 * MIB, 2 * MIB - 4096, 0);
	assert_resized(2 * MIB + 511, 2 * MIB + 511 - 4096, 0);
	assert_resized(2 * MIB, 2 * MIB - 4096, 0);
	disk.image->config.sector_size = 512;
	assert_resized(2 * MIB + 511, 2 * MIB - 4096, 0); /* nothing is logged */
	assert_resized(3 * MIB + 1, 3 * MIB - 4096, 1);
	assert_resized(8192, 4096, 0);
	assert_resized(4096, 0, 1);
	close_disk();
}
END_TEST

START_TEST(size_limit_stays)
{
	open_direct();
	disk.image->config.sizelimit = MIB;
	assert_resized(5 * MIB, MIB, 0);
	assert_resized(65536, 65536, 0);
	close_disk();
}
END_TEST

START_TEST(file_that_ends_before_the_offset_is_refused_and_changes_nothing)
{
	open_with(&(struct fake_facts){.offset = 4096});
	ck_assert_int_eq(ftruncate(disk.image->backing.fd, 4095), 0);
	ck_assert_int_eq(image_resize(disk.image, &error), -EINVAL);
	ck_assert_str_eq(error, "disk.img: offset=4096 is past the end of the file (4095 bytes)");
	ck_assert_uint_eq(image_size(disk.image), MIB - 4096);
	close_disk();
}
END_TEST

/* A backing that tells its size, and must not be asked: it may be away. */
static struct backing_kind telling;
static int64_t told;

static int64_t
told_size(const struct backing *backing)
{
	(void)backing;
	return told;
}

static void
tell(int64_t size)
{
	telling = *disk.image->backing.kind;
	telling.size = NULL;
	telling.told_size = told_size;
	disk.image->backing.kind = &telling;
	told = size;
	image_adopt_size(disk.image);
}

START_TEST(size_that_was_changed_elsewhere_is_told)
{
	open_direct();
	tell(MIB);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_INFO), 0);
	tell(2 * MIB);
	ck_assert_uint_eq(image_size(disk.image), 2 * MIB);
	ck_assert(log_capture_has(LOG_LEVEL_INFO,
				  "resized elsewhere, from 1048576 to 2097152 bytes"));
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 0);
	tell(MIB);
	ck_assert(log_capture_has(LOG_LEVEL_WARNING, "requests beyond the new end fail"));
	close_disk();
}
END_TEST

/* The page at the end of a file with an odd size is the page cache's, wherever the end is. */
START_TEST(direct_io_ends_elsewhere_after_a_resize)
{
	open_with(&(struct fake_facts){.align = 512, .file_size = MIB + 1});
	disk.image->sector_size = 1;
	ck_assert_uint_eq(disk.image->direct_end, MIB);
	assert_resized(2 * MIB + 77, 2 * MIB + 77, 0);
	ck_assert_uint_eq(disk.image->direct_end, 2 * MIB);
	assert_resized(2 * MIB + 512, 2 * MIB + 512, 0);
	ck_assert_uint_eq(disk.image->direct_end, UINT64_MAX);
	assert_resized(4095, 4095, 0);
	ck_assert_uint_eq(disk.image->direct_end, 0);
	assert_resized(0, 0, 1);
	close_disk();
}
END_TEST

START_TEST(request_in_the_new_part_works_after_a_resize)
{
	unsigned char *buffer = buffer_new(512, 0);

	open_direct();
	ck_assert_int_eq(ftruncate(disk.image->backing.fd, 2 * MIB), 0);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_READ, 0, MIB, 512, buffer), -EINVAL);
	assert_resized(2 * MIB, 2 * MIB, 0);
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_READ, 0, MIB, 512, buffer), 0);
	buffer_free(buffer);
	close_disk();
}
END_TEST

/* ---- Lock */

/* Another process, which locks `count` bytes as QEMU does: byte 100 to read, 101 to write. */
static pid_t
holder_start(off_t byte, off_t bytes)
{
	struct flock lock = {
		.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = bytes};
	char path[SCRATCH_PATH], ready;
	int fds[2];
	pid_t pid;

	ck_assert_int_eq(pipe(fds), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (fcntl(open(scratch_path(disk.image->backing.fd, path), O_RDWR), F_OFD_SETLK,
			  &lock) < 0 ||
		    write(fds[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(fds[1]);
	ck_assert_int_eq(read(fds[0], &ready, 1), 1);
	close(fds[0]);
	return pid;
}

static void
holder_end(pid_t pid)
{
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

START_TEST(lock_is_taken_when_asked_for_and_shown)
{
	open_direct();
	disk.image->config.lock = LOCK_AUTO;
	ck_assert_str_eq(status_now().lock, "not taken yet");
	ck_assert_int_eq(image_lock_check(disk.image, true, &error), 0);
	ck_assert_str_eq(status_now().lock, "not taken yet");
	ck_assert_int_eq(image_lock(disk.image, false, &error), 0);
	ck_assert_str_eq(status_now().lock, "shared");
	ck_assert(!status_now().writable);
	ck_assert_int_eq(image_lock(disk.image, true, &error), 0);
	ck_assert_str_eq(status_now().lock, "exclusive");
	ck_assert(status_now().writable);
	/* A stronger lock is kept when a weaker one is asked for. */
	ck_assert_int_eq(image_lock(disk.image, false, &error), 0);
	ck_assert_str_eq(status_now().lock, "exclusive");
	close_disk();
}
END_TEST

START_TEST(size_is_looked_at_again_when_the_lock_is_taken)
{
	open_direct();
	disk.image->config.lock = LOCK_AUTO;
	ck_assert_int_eq(ftruncate(disk.image->backing.fd, 3 * MIB), 0);
	ck_assert_uint_eq(image_size(disk.image), MIB);
	ck_assert_int_eq(image_lock(disk.image, true, &error), 0);
	ck_assert_uint_eq(image_size(disk.image), 3 * MIB);
	close_disk();
}
END_TEST

START_TEST(refused_lock_leaves_the_image_without_one)
{
	pid_t pid;

	open_direct();
	disk.image->config.lock = LOCK_AUTO;
	pid = holder_start(101, 1);
	ck_assert_int_eq(image_lock_check(disk.image, true, &error), -EAGAIN);
	ck_assert_ptr_nonnull(strstr(error, "disk.img: no exclusive lock"));
	free(error);
	ck_assert_int_eq(image_lock(disk.image, true, &error), -EAGAIN);
	ck_assert_str_eq(status_now().lock, "not taken yet");
	holder_end(pid);
	free(error);
	ck_assert_int_eq(image_lock(disk.image, true, &error), 0);
	ck_assert_str_eq(status_now().lock, "exclusive");
	close_disk();
}
END_TEST

START_TEST(reader_that_may_not_write_stays_a_reader)
{
	pid_t pid;

	open_direct();
	disk.image->config.lock = LOCK_AUTO;
	ck_assert_int_eq(image_lock(disk.image, false, &error), 0);
	pid = holder_start(201, 1); /* a reader that excludes writers */
	ck_assert_int_eq(image_lock(disk.image, true, &error), -EAGAIN);
	ck_assert_str_eq(status_now().lock, "shared");
	holder_end(pid);
	close_disk();
}
END_TEST

/* The other process has set its locks and has not looked for others yet: both are refused. */
START_TEST(reader_that_may_not_write_never_goes_on_without_a_lock)
{
	pid_t pid;

	open_direct();
	disk.image->config.lock = LOCK_AUTO;
	ck_assert_int_eq(image_lock(disk.image, false, &error), 0);
	pid = holder_start(101, 101);
	ck_assert_int_eq(image_lock(disk.image, true, &error), -EAGAIN);
	ck_assert_str_eq(status_now().lock, "shared");
	holder_end(pid);
	close_disk();
}
END_TEST

/* ---- Status */

START_TEST(status_tells_the_facts)
{
	struct image_status status;

	open_with(&(struct fake_facts){
		.align = 512, .memory_align = 4, .offset = 512, .depth = 5, .no_discard = true});
	strcpy(disk.image->engine_reason, "io_uring: no");
	strcpy(disk.image->poll_reason, "it needs more");
	disk.image->config.sizelimit = 2 * MIB;
	disk.image->backing.device = makedev(8, 1);
	disk.image->backing.inode = 77;
	status = status_now();
	ck_assert_str_eq(status.path, "disk.img");
	ck_assert_uint_eq(status.size, MIB - 512);
	ck_assert_uint_eq(status.offset, 512);
	ck_assert_uint_eq(status.sizelimit, 2 * MIB);
	ck_assert_uint_eq(status.device, makedev(8, 1));
	ck_assert_uint_eq(status.inode, 77);
	ck_assert_uint_eq(status.sector_size, 512);
	ck_assert(status.writable && status.direct && !status.poll && !status.discard);
	ck_assert_str_eq(status.engine, "fake");
	ck_assert_str_eq(status.engine_reason, "io_uring: no");
	ck_assert_str_eq(status.poll_reason, "it needs more");
	ck_assert_uint_eq(status.direct_align, 512);
	ck_assert_uint_eq(status.memory_align, 4);
	ck_assert_uint_eq(status.contexts, 0);
	ck_assert_uint_eq(status.depth, 5);
	close_disk();
	open_with(&(struct fake_facts){.read_only = true});
	status = status_now();
	ck_assert_uint_eq(status.direct_align + status.memory_align, 0);
	ck_assert(!status.writable);
	close_disk();
}
END_TEST

START_TEST(polling_is_shown_while_direct_io_is_on)
{
	open_direct();
	disk.fake.backend.polled = true;
	ck_assert(status_now().poll);
	ck_assert_int_eq(image_set_direct(disk.image, false, &error), 0);
	ck_assert(!status_now().poll);
	close_disk();
}
END_TEST

START_TEST(counters_and_contexts_are_summed)
{
	unsigned char *buffer = buffer_new(4096, 0);
	struct image_status status;
	_Atomic(const char *) all = NULL, few = "a reason";
	struct ioctx *contexts[3];

	open_direct();
	for (unsigned int i = 0; i < 3; i++) {
		contexts[i] = pool_take(disk.image);
		contexts[i]->unregistered = &all;
		ck_assert_int_eq(
			test_io_execute(contexts[i], IO_READ, 0, 0, 1024 * (i + 1), buffer), 0);
	}
	status = status_now(); /* while they are taken */
	ck_assert_uint_eq(status.contexts, 3);
	ck_assert_uint_eq(status.counters[COUNTER_READS], 3);
	ck_assert_uint_eq(status.counters[COUNTER_READ_BYTES], 6144);
	ck_assert_uint_eq(status.counters[COUNTER_WRITES], 0);
	ck_assert(status.registered_buffers);
	ck_assert_str_eq(status.registered_reason, "");
	contexts[1]->unregistered = &few;
	status = status_now();
	ck_assert(!status.registered_buffers);
	ck_assert_str_eq(status.registered_reason, "a reason");
	contexts[1]->unregistered = NULL;
	status = status_now();
	ck_assert(!status.registered_buffers);
	ck_assert_str_eq(status.registered_reason, "");
	for (unsigned int i = 0; i < 3; i++)
		pool_give(disk.image, contexts[i]);
	buffer_free(buffer);
	close_disk();
}
END_TEST

START_TEST(each_counter_has_a_name_of_its_own)
{
	for (unsigned int i = 0; i < COUNTERS; i++) {
		ck_assert_ptr_nonnull(counter_rows[i].name);
		for (unsigned int j = 0; j < i; j++)
			ck_assert_str_ne(counter_rows[i].name, counter_rows[j].name);
	}
}
END_TEST

static void
assert_summary(bool degraded, const char *expected)
{
	bool is_degraded = !degraded;
	char *text = image_summary(disk.image, &is_degraded);

	ck_assert_str_eq(text, expected);
	ck_assert_int_eq(is_degraded, degraded);
	free(text);
	close_disk();
}

START_TEST(summary_tells_what_runs_and_why_not_something_better)
{
	open_direct();
	assert_summary(
		false,
		"disk.img: 1048576 bytes, engine fake, direct I/O on (512-byte blocks), polling off, "
		"sector size 512, writable");
	open_with(&(struct fake_facts){.read_only = true});
	strcpy(disk.image->direct_reason, "direct-io=off");
	assert_summary(
		false,
		"disk.img: 1048576 bytes, engine fake, direct I/O off (direct-io=off), page cache keep, polling off, "
		"sector size 512, read-only");
	open_direct();
	strcpy(disk.image->engine_reason, "io_uring: Operation not permitted");
	assert_summary(
		true,
		"disk.img: 1048576 bytes, engine fake (io_uring: Operation not permitted), direct I/O "
		"on (512-byte blocks), polling off, sector size 512, writable");
	open_direct();
	strcpy(disk.image->poll_reason, "the device has no poll queues");
	assert_summary(
		true,
		"disk.img: 1048576 bytes, engine fake, direct I/O on (512-byte blocks), polling off "
		"(the device has no poll queues), sector size 512, writable");
	open_with(&(struct fake_facts){.align = 0});
	disk.image->config.direct_io = TRISTATE_AUTO;
	strcpy(disk.image->direct_reason, "the file system does not support it");
	assert_summary(
		true,
		"disk.img: 1048576 bytes, engine fake, direct I/O off (the file system does not support "
		"it), page cache keep, polling off, sector size 512, writable");
}
END_TEST

START_TEST(page_cache_is_shown_where_it_matters)
{
	open_with(&(struct fake_facts){.align = 0});
	disk.image->sweeper = sweeper_new(disk.image->backing.fd, 0, UINT64_MAX);
	atomic_store(&disk.image->dontcache, true);
	ck_assert_str_eq(status_now().page_cache, "drop");
	assert_summary(false,
		       "disk.img: 1048576 bytes, engine fake, direct I/O off, page cache drop, "
		       "polling off, sector size 512, writable");
	open_with(&(struct fake_facts){.align = 0});
	disk.image->sweeper = sweeper_new(disk.image->backing.fd, 0, UINT64_MAX);
	strcpy(disk.image->dontcache_reason, "Linux 6.1 does not know it");
	assert_summary(false,
		       "disk.img: 1048576 bytes, engine fake, direct I/O off, page cache drop "
		       "(without RWF_DONTCACHE: Linux 6.1 does not know it), polling off, sector "
		       "size 512, writable");
	open_direct();
	disk.image->config.page_cache = PAGE_CACHE_DROP;
	disk.image->sweeper = sweeper_new(disk.image->backing.fd, 0, UINT64_MAX);
	ck_assert_str_eq(status_now().page_cache_reason, "no effect with direct I/O");
	assert_summary(
		false,
		"disk.img: 1048576 bytes, engine fake, direct I/O on (512-byte blocks), page "
		"cache drop (no effect with direct I/O), polling off, sector size 512, writable");
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "size"},
		{.test = new_size_of_the_file_is_taken_up},
		{.test = size_limit_stays},
		{.test = file_that_ends_before_the_offset_is_refused_and_changes_nothing},
		{.test = request_in_the_new_part_works_after_a_resize},
		{.test = direct_io_ends_elsewhere_after_a_resize},
		{.test = size_that_was_changed_elsewhere_is_told},
		{.name = "lock"},
		{.test = lock_is_taken_when_asked_for_and_shown},
		{.test = size_is_looked_at_again_when_the_lock_is_taken},
		{.test = refused_lock_leaves_the_image_without_one},
		{.test = reader_that_may_not_write_stays_a_reader},
		{.test = reader_that_may_not_write_never_goes_on_without_a_lock},
		{.name = "status"},
		{.test = status_tells_the_facts},
		{.test = polling_is_shown_while_direct_io_is_on},
		{.test = counters_and_contexts_are_summed},
		{.test = each_counter_has_a_name_of_its_own},
		{.test = summary_tells_what_runs_and_why_not_something_better},
		{.test = page_cache_is_shown_where_it_matters},
		{0},
	};

	return suite_run("image_control", cases);
}
