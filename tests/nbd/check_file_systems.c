/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * File systems that lack an operation that a request would use, and one that is full: the server
 * does the request in another way, or the client gets the reason.
 */
#include "tests/nbd/client.h"
#include "tests/nbd/loop_device.h"
#include "tests/nbd/pattern.h"
#include "tests/nbd/scratch.h"
#include "tests/nbd/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define OLD  1
#define NEW  2
#define SIZE (8 * MIB)

/* Makes an image full of data in a freshly mounted file system. */
static const char *
image_in(const char *mount_point, uint64_t size)
{
	static char path[512];
	int fd;

	snprintf(path, sizeof(path), "%s/disk.img", mount_point);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	close(fd);
	scratch_write(path, 0, size, OLD);
	return path;
}

/* Fills a range with zeroes in several ways, each from an image full of data. */
static void
zero_in_all_ways(struct nbd_handle *client, uint64_t size)
{
	static const struct {
		uint64_t offset, length;
	} parts[] = {
		{0, 512},       {700, 100},          {4095, 4098}, {MIB + 100, 3 * MIB},
		{MIB, 4 * MIB}, {SIZE - 5000, 5000},
	};

	for (size_t i = 0; i < 2 * sizeof(parts) / sizeof(parts[0]); i++) {
		uint64_t offset = parts[i / 2].offset, length = parts[i / 2].length;
		uint64_t end = offset + length;

		client_zero(client, offset, length, i % 2 ? LIBNBD_CMD_FLAG_NO_HOLE : 0);
		client_expect(client, 0, offset, OLD);
		client_expect(client, offset, length, PATTERN_ZEROES);
		client_expect(client, end, size - end, OLD);
		client_write(client, offset, length, OLD, 0);
	}
}

/* A fast zero either zeroes, or is refused and changes nothing. */
static bool
fast_zero_works(struct nbd_handle *client, uint64_t offset, uint64_t length, uint32_t flags)
{
	bool works;

	if (!nbd_can_fast_zero(client))
		return false;
	client_write(client, offset, length, OLD, 0);
	works = nbd_zero(client, length, offset, flags | LIBNBD_CMD_FLAG_FAST_ZERO) == 0;
	if (!works)
		ck_assert_msg(nbd_get_errno() == ENOTSUP, "%s", nbd_get_error());
	client_expect(client, offset, length, works ? PATTERN_ZEROES : OLD);
	client_write(client, offset, length, OLD, 0);
	return works;
}

/* ramfs has no fallocate(): all zeroes must be written. */
START_TEST(zero_works_where_the_file_system_has_no_fallocate)
{
	const char *path = image_in(file_system_mount("ramfs", NULL), SIZE);
	struct server *server =
		server_start(TARGET, &(struct server_config){.file = path, .direct_io_auto = true});
	struct nbd_handle *client = client_connect(server, "");

	server_expect_log(server, "disk.img", "direct I/O off (");
	zero_in_all_ways(client, SIZE);
	ck_assert(!fast_zero_works(client, MIB, MIB, 0));
	ck_assert(!fast_zero_works(client, MIB + 100, MIB, 0));
	ck_assert(!fast_zero_works(client, MIB, MIB, LIBNBD_CMD_FLAG_NO_HOLE));
	/* A trim without effect is no error. */
	if (nbd_can_trim(client))
		client_trim(client, 100, MIB, 0);
	client_expect(client, MIB + 100, SIZE - MIB - 100, OLD);
	client_close(client);
	server_stop(server);
	file_system_unmount();
}
END_TEST

/* nbdkit up to 1.44 loses all but the first 64 MiB of a request that its plugin leaves to it. */
START_TEST(zero_request_of_68_mib_is_whole_where_the_file_system_has_no_fallocate)
{
	static const uint32_t flags[] = {0, LIBNBD_CMD_FLAG_NO_HOLE};
	const uint64_t size = 72 * MIB;
	const char *path = image_in(file_system_mount("ramfs", NULL), size);
	struct server *server =
		server_start(TARGET, &(struct server_config){.file = path, .direct_io_auto = true});
	struct nbd_handle *client = client_connect(server, "");

	for (size_t i = 0; i < 2; i++) {
		client_zero(client, 2 * MIB + 100, 68 * MIB, flags[i]);
		scratch_expect(path, 0, 2 * MIB + 100, OLD);
		scratch_expect(path, 2 * MIB + 100, 68 * MIB, PATTERN_ZEROES);
		scratch_expect(path, 70 * MIB + 100, 2 * MIB - 100, OLD);
		scratch_write(path, 2 * MIB, 68 * MIB + 512, OLD);
	}
	client_close(client);
	server_stop(server);
	file_system_unmount();
}
END_TEST

/* tmpfs can punch holes, but can't zero a range that stays allocated. */
START_TEST(zero_and_trim_work_on_tmpfs)
{
	const char *path = image_in(file_system_mount("tmpfs", "size=64m"), SIZE);
	struct server *server =
		server_start(TARGET, &(struct server_config){.file = path, .direct_io_auto = true});
	struct nbd_handle *client = client_connect(server, "");

	ck_assert_uint_ge(scratch_allocated(path), SIZE);
	zero_in_all_ways(client, SIZE);
	ck_assert(fast_zero_works(client, MIB, MIB, 0));
	client_zero(client, MIB, MIB, LIBNBD_CMD_FLAG_NO_HOLE);
	ck_assert_uint_ge(scratch_allocated(path), SIZE);
	client_zero(client, MIB, MIB, 0);
	ck_assert_uint_le(scratch_allocated(path), SIZE - MIB);
	client_trim(client, 4 * MIB, 2 * MIB, 0);
	ck_assert_uint_le(scratch_allocated(path), SIZE - 3 * MIB);
	client_expect(client, 2 * MIB, 2 * MIB, OLD);
	client_expect(client, 6 * MIB, 2 * MIB, OLD);
	client_close(client);
	server_stop(server);
	file_system_unmount();
}
END_TEST

/* Files of ext3 have no extents: ext3 supports direct I/O, but not ZERO_RANGE. */
START_TEST(zero_works_where_the_file_system_cannot_zero_a_range)
{
	struct loop_device device;
	const char *path;
	struct server *server;
	struct nbd_handle *client;

	loop_device_attach(&device, scratch_sparse_image("disk.backing", 64 * MIB), 512, false);
	path = image_in(
		file_system_make(&device, "mkfs.ext4 -q -O ^extent,^64bit", "ext4", "data=ordered"),
		SIZE);
	server = server_start(TARGET, &(struct server_config){.file = path});
	client = client_connect(server, "");
	zero_in_all_ways(client, SIZE);
	ck_assert(!fast_zero_works(client, MIB, MIB, LIBNBD_CMD_FLAG_NO_HOLE));
	ck_assert(!fast_zero_works(client, MIB + 100, MIB, LIBNBD_CMD_FLAG_NO_HOLE));
	fast_zero_works(client, MIB + 100, MIB, 0);
	client_zero(client, MIB, 4 * MIB, LIBNBD_CMD_FLAG_NO_HOLE | LIBNBD_CMD_FLAG_FUA);
	ck_assert_uint_ge(scratch_allocated(path), SIZE);
	client_close(client);
	server_stop(server);
	scratch_expect(path, 0, MIB, OLD);
	scratch_expect(path, MIB, 4 * MIB, PATTERN_ZEROES);
	scratch_expect(path, 5 * MIB, SIZE - 5 * MIB, OLD);
	file_system_unmount();
	loop_device_detach(&device);
}
END_TEST

/* A direct write into a hole of such a file goes through the page cache. The kernel takes a direct
 * write beside it, in the same page, for lost, and the next flush fails, though nothing is lost. */
START_TEST(flush_works_after_writes_into_holes_of_a_page_where_a_file_has_no_extents)
{
	static char data[64 * 512];
	struct loop_device device;
	const char *path;
	struct server *server;
	struct nbd_handle *client;

	loop_device_attach(&device, scratch_sparse_image("disk.backing", 64 * MIB), 512, false);
	path = image_in(
		file_system_make(&device, "mkfs.ext4 -q -O ^extent,^64bit", "ext4", "data=ordered"),
		SIZE);
	server = server_start(TARGET, &(struct server_config){.file = path});
	client = client_connect(server, "");
	pattern_fill(data, sizeof(data), MIB, NEW);
	for (unsigned int round = 0; round < 20; round++) {
		client_trim(client, 0, 4 * MIB, 0);
		for (size_t i = 0; i < sizeof(data); i += 512)
			ck_assert_int_gt(nbd_aio_pwrite(client, data + i, 512, MIB + i,
							NBD_NULL_COMPLETION, 0),
					 0);
		while (nbd_aio_in_flight(client) > 0)
			ck_assert_int_ge(nbd_poll(client, -1), 0);
		while (nbd_aio_peek_command_completed(client) > 0)
			ck_assert_int_eq(
				nbd_aio_command_completed(
					client, (uint64_t)nbd_aio_peek_command_completed(client)),
				1);
		client_flush(client);
		client_expect(client, MIB, sizeof(data), NEW);
	}
	client_close(client);
	server_stop(server);
	scratch_expect(path, MIB, sizeof(data), NEW);
	file_system_unmount();
	loop_device_detach(&device);
}
END_TEST

/* Writes pieces in order until one fails; returns its offset. */
static uint64_t
fill_disk(struct nbd_handle *client, uint64_t offset, uint64_t size, uint64_t piece)
{
	static char data[MIB];

	for (; offset + piece <= size; offset += piece) {
		pattern_fill(data, piece, offset, NEW);
		if (nbd_pwrite(client, data, piece, offset, 0) == 0)
			continue;
		ck_assert_msg(nbd_get_errno() == ENOSPC, "%s", nbd_get_error());
		return offset;
	}
	ck_abort_msg("the file system did not fill up");
	return 0;
}

START_TEST(full_file_system_is_told_and_logged_and_earlier_data_stays)
{
	const uint64_t size = 64 * MIB;
	struct loop_device device;
	char path[512];
	struct server *server;
	struct nbd_handle *client;
	uint64_t full, end;
	int fd;

	loop_device_attach(&device, scratch_sparse_image("disk.backing", 32 * MIB), 512, false);
	snprintf(path, sizeof(path), "%s/disk.img",
		 file_system_make(&device, "mkfs.ext4 -q -m 0", "ext4", NULL));
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
	close(fd);
	server = server_start(TARGET, &(struct server_config){.file = path});
	client = client_connect(server, "");

	full = fill_disk(client, 0, size, MIB);
	ck_assert_uint_gt(full, 8 * MIB);
	server_expect_log(server, "disk.img: write of ", "failed: No space left on device");
	/* The refused range is tried again in smaller pieces, until no piece fits. */
	end = fill_disk(client, full, size, 4096);
	client_refused(nbd_zero(client, 16 * MIB, 32 * MIB, LIBNBD_CMD_FLAG_NO_HOLE), ENOSPC);
	client_expect(client, 0, end, NEW);
	client_expect(client, 50 * MIB, size - 50 * MIB, PATTERN_ZEROES);

	/* Punching a hole needs no space, and frees some for later writes. */
	client_trim(client, 0, 4 * MIB, 0);
	client_flush(client);
	client_write(client, 56 * MIB, MIB, NEW, LIBNBD_CMD_FLAG_FUA);
	client_expect(client, 56 * MIB, MIB, NEW);
	client_expect(client, 4 * MIB, end - 4 * MIB, NEW);
	client_close(client);
	server_stop(server);
	scratch_expect(path, 4 * MIB, end - 4 * MIB, NEW);
	file_system_unmount();
	loop_device_detach(&device);
}
END_TEST

static void
add_tests(TCase *tests, int row)
{
	target_add_test(tests, zero_works_where_the_file_system_has_no_fallocate, row);
	target_add_test(
		tests, zero_request_of_68_mib_is_whole_where_the_file_system_has_no_fallocate, row);
	target_add_test(tests, zero_and_trim_work_on_tmpfs, row);
	target_add_test(tests, zero_works_where_the_file_system_cannot_zero_a_range, row);
	target_add_test(tests,
			flush_works_after_writes_into_holes_of_a_page_where_a_file_has_no_extents,
			row);
	target_add_test(tests, full_file_system_is_told_and_logged_and_earlier_data_stays, row);
}

int
main(void)
{
	return target_main("file_systems", add_tests, TARGET_NEEDS_ROOT | TARGET_NEVER_POLLED);
}
