/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opening what holds the bytes of an image, and its facts.
 */
#include "engine/backing/open.h"

#include "engine/backing/kind.h"
#include "engine/backing/file/file.h"
#include "engine/backing/file/lock.h"

#include "common/cleanup.h"

#include "tests/lib/suite.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

static char directory[SCRATCH_PATH], outside[SCRATCH_PATH + 16];
static int dirfd_;
static struct backing backing;

static void
directory_begin(void)
{
	scratch_directory_new(directory);
	strcpy(outside, directory);
	strcat(outside, "/images");
	if (mkdir(outside, 0755) < 0)
		abort();
}

static void
directory_end(void)
{
	scratch_directory_remove(directory);
}

/* Files are in a directory below the scratch directory, so that a path can lead out of it. */
static void
begin(void)
{
	dirfd_ = open(outside, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(dirfd_, 0);
}

static void
end(void)
{
	close(dirfd_);
}

static void
make(const char *name, mode_t mode, off_t size)
{
	int fd = openat(dirfd_, name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, size) | fchmod(fd, mode), 0);
	close(fd);
}

static int
open_backing(const char *name, unsigned int flags)
{
	char *error = NULL;
	int r = backing_open(&backing, dirfd_, name, flags, &(struct image_config){0}, &error);

	if (r < 0)
		ck_assert_msg(error && strncmp(error, name, strlen(name)) == 0, "%s: %s", name,
			      error);
	else
		ck_assert_ptr_null(error);
	free(error);
	return r;
}

/* Root may do everything, so tests of permissions run as another user. */
static void
be_nobody(bool nobody)
{
	if (getuid() != 0)
		return;
	ck_assert_int_eq(seteuid(nobody ? 65534 : 0), 0);
	ck_assert_int_eq(prctl(PR_SET_DUMPABLE, 1), 0); /* sanitizers look at their own process */
}

static void
assert_refused(const char *name, unsigned int flags, int result, const char *message)
{
	char *error = NULL;

	ck_assert_int_eq(
		backing_open(&backing, dirfd_, name, flags, &(struct image_config){0}, &error),
		result);
	ck_assert_str_eq(error, message);
	ck_assert_int_eq(backing.fd, -1);
	ck_assert_int_eq(backing.direct_fd, -1);
	ck_assert_ptr_null(backing.path);
	free(error);
}

START_TEST(file_is_opened_for_writing_with_its_facts)
{
	make("disk.img", 0644, 10000);
	ck_assert_int_eq(open_backing("disk.img", 0), 0);
	ck_assert_str_eq(backing.path, "disk.img");
	ck_assert(backing.writable);
	ck_assert(!backing.block_device);
	ck_assert_uint_eq(backing.block_size, 1);
	ck_assert_int_eq(backing_size(&backing), 10000);
	ck_assert_int_eq(pwrite(backing.fd, "x", 1, 0), 1);
	ck_assert_int_eq(ftruncate(backing.fd, 20000), 0);
	ck_assert_int_eq(backing_size(&backing), 20000);
	backing_close(&backing);
	backing_close(&backing);
}
END_TEST

START_TEST(only_a_file_of_tmpfs_is_in_memory)
{
	char path[] = "/dev/shm/check_backing.XXXXXX";
	struct statfs facts;
	int fd;

	make("disk.img", 0644, 10000);
	ck_assert_int_eq(open_backing("disk.img", 0), 0);
	ck_assert_int_eq(fstatfs(backing.fd, &facts), 0);
	ck_assert_int_eq(backing.in_memory, facts.f_type == TMPFS_MAGIC);
	backing_close(&backing);
	ck_assert_int_eq(open_backing("/proc/version", BACKING_READ_ONLY), 0);
	ck_assert(!backing.in_memory);
	backing_close(&backing);
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	close(fd);
	ck_assert_int_eq(open_backing(path, 0), 0);
	unlink(path);
	ck_assert(backing.in_memory);
	backing_close(&backing);
}
END_TEST

START_TEST(read_only_file_cannot_be_written)
{
	make("disk.img", 0644, 10000);
	ck_assert_int_eq(open_backing("disk.img", BACKING_READ_ONLY), 0);
	ck_assert(!backing.writable);
	ck_assert_int_eq(pwrite(backing.fd, "x", 1, 0), -1);
	if (backing.direct_fd >= 0)
		ck_assert_int_eq(fcntl(backing.direct_fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	backing_close(&backing);
}
END_TEST

START_TEST(file_without_write_permission_is_opened_read_only)
{
	make("disk.img", 0444, 10000);
	be_nobody(true);
	ck_assert_int_eq(open_backing("disk.img", 0), 0);
	be_nobody(false);
	ck_assert(!backing.writable);
	backing_close(&backing);
}
END_TEST

START_TEST(file_without_any_permission_is_refused)
{
	make("disk.img", 0, 10000);
	be_nobody(true);
	assert_refused("disk.img", 0, -EACCES, "disk.img: Permission denied");
	be_nobody(false);
}
END_TEST

START_TEST(descriptors_block_and_are_not_inherited)
{
	make("disk.img", 0644, 10000);
	ck_assert_int_eq(open_backing("disk.img", 0), 0);
	/* With O_NONBLOCK, io_uring would return EAGAIN instead of waiting. */
	ck_assert_int_eq(fcntl(backing.fd, F_GETFL) & (O_NONBLOCK | O_DIRECT | O_APPEND), 0);
	ck_assert_int_eq(fcntl(backing.fd, F_GETFD), FD_CLOEXEC);
	if (backing.direct_fd >= 0) {
		ck_assert_int_eq(fcntl(backing.direct_fd, F_GETFL) & (O_NONBLOCK | O_APPEND), 0);
		ck_assert_int_eq(fcntl(backing.direct_fd, F_GETFD), FD_CLOEXEC);
	}
	backing_close(&backing);
}
END_TEST

/* The same after the file has lost its name. */
START_TEST(reopened_file_is_the_same_and_shares_nothing)
{
	struct stat a, b;
	int fd;

	make("disk.img", 0644, 10000);
	ck_assert_int_eq(open_backing("disk.img", _i ? BACKING_READ_ONLY : 0), 0);
	ck_assert_int_eq(unlinkat(dirfd_, "disk.img", 0), 0);
	ck_assert_int_eq(backing_reopen(-1), -EBADF);
	if (backing.direct_fd >= 0) {
		fd = backing_reopen(backing.direct_fd);
		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(fcntl(fd, F_GETFL) & (O_ACCMODE | O_DIRECT),
				 (_i ? O_RDONLY : O_RDWR) | O_DIRECT);
		close(fd);
	}
	fd = backing_reopen(backing.fd);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fstat(backing.fd, &a) | fstat(fd, &b), 0);
	ck_assert_uint_eq(a.st_ino, b.st_ino);
	ck_assert_int_eq(fcntl(fd, F_GETFL) & (O_ACCMODE | O_DIRECT), _i ? O_RDONLY : O_RDWR);
	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	ck_assert_int_eq(lseek(fd, 100, SEEK_SET), 100);
	ck_assert_int_eq(lseek(backing.fd, 0, SEEK_CUR), 0);
	close(fd);
	backing_close(&backing);
}
END_TEST

START_TEST(direct_descriptor_is_direct_and_of_the_same_file)
{
	struct stat a, b;

	make("disk.img", 0644, 65536);
	ck_assert_int_eq(open_backing("disk.img", 0), 0);
	ck_assert_str_eq(backing.direct_reason, "");
	ck_assert_int_ge(backing.direct_fd, 0);
	ck_assert_int_ne(fcntl(backing.direct_fd, F_GETFL) & O_DIRECT, 0);
	ck_assert_int_eq(fstat(backing.fd, &a) | fstat(backing.direct_fd, &b), 0);
	ck_assert_uint_eq(a.st_ino, b.st_ino);
	ck_assert_uint_ge(backing.direct_align, 512);
	backing_close(&backing);
}
END_TEST

static bool
has_own_lock(int fd)
{
	char path[64], text[1024] = "";
	int CLEANUP_CLOSE info = -1;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	info = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_gt(read(info, text, sizeof(text) - 1), 0);
	return strstr(text, "lock:") != NULL;
}

/* The client of a network file system fails the late requests of descriptors whose own lock was
 * lost, and of no others. */
START_TEST(each_descriptor_that_moves_data_has_a_lock)
{
	const struct image_config config = {.lock = LOCK_AUTO};
	const struct lock_part whole = {0, UINT64_MAX};
	char *error = NULL;

	make("disk.img", 0644, 65536);
	ck_assert_int_eq(open_backing("disk.img", 0), 0);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(backing.kind->lock(&backing, &config, &whole, i, i, &error), 0);
	ck_assert(has_own_lock(backing.fd));
	ck_assert(has_own_lock(backing.direct_fd));
	backing.kind->unlock(&backing);
	ck_assert(!has_own_lock(backing.fd));
	ck_assert(!has_own_lock(backing.direct_fd));
	backing_close(&backing);
}
END_TEST

START_TEST(file_system_without_direct_io_gives_the_reason)
{
	ck_assert_int_eq(open_backing("/proc/version", BACKING_READ_ONLY), 0);
	ck_assert_int_eq(backing.direct_fd, -1);
	ck_assert_str_eq(backing.direct_reason, "the file system does not support it");
	backing_close(&backing);
}
END_TEST

START_TEST(what_holds_no_bytes_is_refused)
{
	assert_refused("missing.img", 0, -ENOENT, "missing.img: No such file or directory");
	assert_refused("/dev/null", 0, -ENOTBLK,
		       "/dev/null: is not a regular file or a block device");
	assert_refused(".", BACKING_READ_ONLY, -EISDIR, ".: is a directory, not an image");
	ck_assert_int_eq(open_backing(".", 0), -EISDIR);
	assert_refused("", 0, -ENOENT, ": No such file or directory");
}
END_TEST

START_TEST(fifo_is_refused_without_hanging)
{
	ck_assert_int_eq(mkfifoat(dirfd_, "fifo", 0644), 0);
	assert_refused("fifo", 0, -ENOTBLK, "fifo: is not a regular file or a block device");
	assert_refused("fifo", BACKING_READ_ONLY, -ENOTBLK,
		       "fifo: is not a regular file or a block device");
	assert_refused("fifo", BACKING_BENEATH, -ENOTBLK,
		       "fifo: is not a regular file or a block device");
}
END_TEST

/* Opening a socket fails with ENXIO; another error shows that nothing tried to open it. */
START_TEST(name_that_is_no_regular_file_is_not_opened)
{
	ck_assert(mknodat(dirfd_, "socket", S_IFSOCK | 0644, 0) == 0 || errno == EEXIST);
	assert_refused("socket", BACKING_BENEATH, -ENOTBLK,
		       "socket: is not a regular file or a block device");
	assert_refused("socket", BACKING_BENEATH | BACKING_READ_ONLY, -ENOTBLK,
		       "socket: is not a regular file or a block device");
	ck_assert(mkdirat(dirfd_, "below", 0755) == 0 || errno == EEXIST);
	assert_refused("below", BACKING_BENEATH, -EISDIR, "below: is a directory, not an image");
}
END_TEST

START_TEST(files_are_told_apart_whatever_their_names)
{
	struct backing first;

	make("disk.img", 0644, 100);
	make("other.img", 0644, 100);
	ck_assert(linkat(dirfd_, "disk.img", dirfd_, "link.img", 0) == 0 || errno == EEXIST);
	ck_assert_int_eq(open_backing("disk.img", 0), 0);
	first = backing;
	ck_assert_int_eq(open_backing("link.img", BACKING_READ_ONLY), 0);
	ck_assert(backing_same(&first, &backing));
	backing_close(&backing);
	ck_assert_int_eq(open_backing("other.img", 0), 0);
	ck_assert(!backing_same(&first, &backing));
	backing_close(&backing);
	backing_close(&first);
}
END_TEST

/* ---- Names that clients give */

static void
assert_not_beneath(const char *name)
{
	int r = open_backing(name, BACKING_BENEATH);

	ck_assert_msg(r < 0, "%s was opened", name);
	ck_assert(!file_is_beneath(dirfd_, name));
}

START_TEST(name_in_the_directory_is_found)
{
	make("disk.img", 0644, 100);
	ck_assert_int_eq(open_backing("disk.img", BACKING_BENEATH), 0);
	ck_assert_int_eq(backing_size(&backing), 100);
	backing_close(&backing);
	ck_assert(file_is_beneath(dirfd_, "disk.img"));
	make("..img", 0644, 100);
	ck_assert_int_eq(open_backing("..img", BACKING_BENEATH), 0);
	backing_close(&backing);
}
END_TEST

START_TEST(name_that_leads_out_of_the_directory_is_refused)
{
	make("../secret.img", 0644, 100);
	ck_assert(mkdirat(dirfd_, "below", 0755) == 0 || errno == EEXIST);
	make("below/disk.img", 0644, 100);
	assert_not_beneath("../secret.img");
	assert_not_beneath("..");
	assert_not_beneath(".");
	assert_not_beneath("");
	assert_not_beneath("/etc/passwd");
	assert_not_beneath("below");
	assert_not_beneath("below/disk.img");
	assert_not_beneath("below/../disk.img");
	assert_not_beneath("/proc/self/fd/0");
}
END_TEST

static void
make_link(const char *target, const char *name)
{
	ck_assert(symlinkat(target, dirfd_, name) == 0 || errno == EEXIST);
}

START_TEST(link_that_leads_out_of_the_directory_is_refused)
{
	char absolute[PATH_MAX], descriptor[SCRATCH_PATH];
	int secret;

	make("../secret.img", 0644, 100);
	make("disk.img", 0644, 100);
	ck_assert_ptr_nonnull(realpath(outside, absolute));
	strcat(absolute, "/disk.img");
	secret = openat(dirfd_, "../secret.img", O_RDWR | O_CLOEXEC);
	make_link("../secret.img", "relative");
	make_link("below/../../secret.img", "winding");
	make_link("/etc/passwd", "absolute");
	make_link(absolute, "absolute-inside");
	make_link(scratch_path(secret, descriptor), "magic");
	make_link("relative", "twice");
	make_link("loop", "loop");
	assert_not_beneath("relative");
	assert_not_beneath("winding");
	assert_not_beneath("absolute");
	assert_not_beneath("absolute-inside");
	assert_not_beneath("magic");
	assert_not_beneath("twice");
	assert_not_beneath("loop");
	close(secret);
}
END_TEST

START_TEST(link_that_stays_in_the_directory_is_followed)
{
	make("disk.img", 0644, 4711);
	make_link("disk.img", "inside");
	ck_assert_int_eq(open_backing("inside", BACKING_BENEATH), 0);
	ck_assert_int_eq(backing_size(&backing), 4711);
	backing_close(&backing);
	ck_assert(file_is_beneath(dirfd_, "inside"));
}
END_TEST

/* Without openat2(), the target of a link is unknown. */
START_TEST(link_is_not_followed_where_its_way_cannot_be_watched)
{
	make("disk.img", 0644, 4711);
	make_link("disk.img", "inside");
	assert_not_beneath("inside");
}
END_TEST

static bool
has_openat2(void)
{
	struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_BENEATH};
	long fd = syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof(how));

	if (fd >= 0)
		close((int)fd);
	return fd >= 0;
}

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "facts",
		 .begin_once = directory_begin,
		 .end_once = directory_end,
		 .begin = begin,
		 .end = end},
		{.test = file_is_opened_for_writing_with_its_facts},
		{.test = only_a_file_of_tmpfs_is_in_memory},
		{.test = read_only_file_cannot_be_written},
		{.test = descriptors_block_and_are_not_inherited},
		{.test = reopened_file_is_the_same_and_shares_nothing, .last = 2},
		{.test = direct_descriptor_is_direct_and_of_the_same_file,
		 .reason = scratch_no_direct_io()},
		{.test = each_descriptor_that_moves_data_has_a_lock},
		{.test = file_system_without_direct_io_gives_the_reason},
		{.test = what_holds_no_bytes_is_refused},
		{.test = fifo_is_refused_without_hanging},
		{.test = files_are_told_apart_whatever_their_names},
		{.test = file_without_write_permission_is_opened_read_only},
		{.name = "beneath",
		 .begin_once = directory_begin,
		 .end_once = directory_end,
		 .begin = begin,
		 .end = end},
		{.test = name_in_the_directory_is_found},
		{.test = name_that_leads_out_of_the_directory_is_refused},
		{.test = name_that_is_no_regular_file_is_not_opened},
		{.test = link_that_leads_out_of_the_directory_is_refused},
		{.test = has_openat2() ? link_that_stays_in_the_directory_is_followed
				       : link_is_not_followed_where_its_way_cannot_be_watched},
		{.test = file_without_any_permission_is_refused},
		{0},
	};

	return suite_run("backing", cases);
}
