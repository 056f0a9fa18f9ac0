/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * offset= and sizelimit= give clients a window of the file, rounded as losetup rounds it. Bytes
 * outside of it are never read and never change. The sizes that clients get are right.
 */
#include "tests/nbd/client.h"
#include "tests/nbd/scratch.h"
#include "tests/nbd/target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_PATTERN 1
#define NEW_PATTERN  2

static int64_t
served_size(const struct target *target, const char *path, bool direct_io_auto, const char *one,
	    const char *other)
{
	struct server *server = server_start(
		target, &(struct server_config){.file = path,
						.direct_io_auto = direct_io_auto,
						.parameters = {one ? one : other, other}});
	struct nbd_handle *client = client_connect(server, "");
	int64_t size = nbd_get_size(client);

	client_close(client);
	server_stop(server);
	return size;
}

START_TEST(window_size_is_rounded_where_the_user_says_so)
{
	const char *path = scratch_image("disk.img", MIB + 700, FILE_PATTERN);

	ck_assert_int_eq(served_size(TARGET, path, false, NULL, NULL), MIB + 700);
	ck_assert_int_eq(served_size(TARGET, path, false, "offset=512", NULL), MIB + 188);
	ck_assert_int_eq(served_size(TARGET, path, true, "sector-size=512", NULL), MIB + 512);
	ck_assert_int_eq(served_size(TARGET, path, false, "sizelimit=1000", NULL), 1000);
	ck_assert_int_eq(served_size(TARGET, path, false, "sizelimit=16", NULL), 16);
	ck_assert_int_eq(served_size(TARGET, path, true, "sizelimit=1000", "sector-size=512"), 512);
	ck_assert_int_eq(served_size(TARGET, path, false, "offset=64k", "sizelimit=64Ki"), 65536);
	ck_assert_int_eq(served_size(TARGET, path, false, "offset=1M", "sizelimit=1M"), 700);
	ck_assert_int_eq(served_size(TARGET, path, false, "sizelimit=0", NULL), MIB + 700);
	ck_assert_int_eq(served_size(TARGET, path, false, "sector-size=4096", NULL), MIB);
	/* Where the offset rules out direct I/O, the server may do without. */
	ck_assert_int_eq(served_size(TARGET, path, true, "offset=1000", NULL), MIB - 300);
}
END_TEST

START_TEST(partial_sector_at_the_end_is_left_out_with_a_warning)
{
	const char *path = scratch_image("disk.img", MIB + 700, FILE_PATTERN);
	struct server *server =
		server_start(TARGET, &(struct server_config){.file = path,
							     .direct_io_auto = true,
							     .parameters = {"sector-size=512"}});
	struct nbd_handle *client = client_connect(server, "");

	server_expect_log(server, "disk.img", "does not end on a 512-byte sector boundary");
	client_write(client, MIB, 512, NEW_PATTERN, 0);
	client_write(client, MIB + 300, 212, NEW_PATTERN, 0);
	client_zero(client, MIB + 500, 12, 0);
	client_close(client);
	server_stop(server);
	scratch_expect(path, MIB, 500, NEW_PATTERN);
	scratch_expect(path, MIB + 500, 12, PATTERN_ZEROES);
	scratch_expect(path, MIB + 512, 188, FILE_PATTERN);
}
END_TEST

START_TEST(file_smaller_than_a_sector_is_served_with_size_zero_and_a_warning)
{
	const char *path = scratch_image("disk.img", 100, FILE_PATTERN);
	struct server *server =
		server_start(TARGET, &(struct server_config){.file = path,
							     .direct_io_auto = true,
							     .parameters = {"sector-size=512"}});
	struct nbd_handle *client = client_connect(server, "");

	server_expect_log(server, "disk.img", "file is smaller than 512 bytes");
	ck_assert_int_eq(nbd_get_size(client), 0);
	client_close(client);
	server_stop(server);
	scratch_expect(path, 0, 100, FILE_PATTERN);
}
END_TEST

START_TEST(client_reads_the_window_and_nothing_else)
{
	const uint64_t offset = 3 * 512, size = MIB;
	const char *path = scratch_image("disk.img", 2 * MIB, FILE_PATTERN);
	struct server *server;
	struct nbd_handle *client;
	static char window[MIB], file[MIB];
	FILE *image = fopen(path, "re");

	server = server_start(
		TARGET, &(struct server_config){.file = path,
						.parameters = {"offset=1536", "sizelimit=1M"}});
	client = client_connect(server, "");
	ck_assert_int_eq(nbd_get_size(client), size);
	ck_assert_int_eq(nbd_pread(client, window, size, 0, 0), 0);
	ck_assert_int_eq(fseek(image, (long)offset, SEEK_SET), 0);
	ck_assert_uint_eq(fread(file, 1, size, image), size);
	ck_assert_mem_eq(window, file, size);
	/* The server refuses what libnbd would refuse, too. */
	client_send_anything(client);
	client_refused(nbd_pread(client, window, 512, size, 0), EINVAL);
	client_refused(nbd_pread(client, window, 513, size - 512, 0), EINVAL);
	client_close(client);
	server_stop(server);
	fclose(image);
}
END_TEST

START_TEST(every_byte_of_a_file_with_an_odd_size_can_be_changed)
{
	static const uint64_t sizes[] = {MIB + 700, MIB - 1, 4097, 100};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const uint64_t size = sizes[i], part = size < 3000 ? size : 3000;
		const char *path = scratch_image("disk.img", size, FILE_PATTERN);
		struct server *server = server_start(TARGET, &(struct server_config){.file = path});
		struct nbd_handle *client = client_connect(server, "");
		struct stat status;

		ck_assert_int_eq(nbd_get_size(client), size);
		ck_assert_int_eq(nbd_get_block_size(client, LIBNBD_SIZE_MINIMUM), 1);
		client_expect(client, 0, size, FILE_PATTERN);
		client_write(client, size - part, part, NEW_PATTERN, LIBNBD_CMD_FLAG_FUA);
		client_write(client, size - 1, 1, NEW_PATTERN, 0);
		client_zero(client, size - 7, 7, LIBNBD_CMD_FLAG_NO_HOLE);
		client_zero(client, size - 5, 5, 0);
		client_trim(client, size - 3, 3, 0);
		client_expect(client, size - 7, 4, PATTERN_ZEROES);
		client_write(client, size - 3, 3, NEW_PATTERN, 0);
		client_expect(client, size - part, part - 7, NEW_PATTERN);
		client_send_anything(client);
		client_refused(nbd_pread(client, &status, 1, size, 0), EINVAL);
		client_close(client);
		server_stop(server);
		scratch_expect(path, 0, size - part, FILE_PATTERN);
		scratch_expect(path, size - part, part - 7, NEW_PATTERN);
		scratch_expect(path, size - 7, 4, PATTERN_ZEROES);
		scratch_expect(path, size - 3, 3, NEW_PATTERN);
		ck_assert_int_eq(stat(path, &status), 0);
		ck_assert_int_eq(status.st_size, size);
	}
}
END_TEST

/* Changes the first and the last bytes of a window in every way, aligned and not. */
static void
change_the_edges(struct nbd_handle *client, uint64_t size)
{
	static const uint64_t lengths[] = {1, 100, 512, 700, 4096, 5000, 70000};

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint64_t length = lengths[i];

		client_trim(client, 0, length, 0);
		client_trim(client, size - length, length, 0);
		client_zero(client, 0, length, 0);
		client_zero(client, size - length, length, 0);
		client_zero(client, 0, length, LIBNBD_CMD_FLAG_NO_HOLE);
		client_zero(client, size - length, length, LIBNBD_CMD_FLAG_NO_HOLE);
		client_expect(client, 0, length, PATTERN_ZEROES);
		client_expect(client, size - length, length, PATTERN_ZEROES);
		client_write(client, 0, length, NEW_PATTERN, 0);
		client_write(client, size - length, length, NEW_PATTERN, 0);
	}
	client_trim(client, 0, size, 0);
	client_zero(client, 0, size, 0);
	client_write(client, 0, size, NEW_PATTERN, 0);
	client_expect(client, 0, size, NEW_PATTERN);
}

static void
expect_bytes_outside_to_stay(const struct target *target, uint64_t offset, uint64_t size,
			     bool direct_io_auto)
{
	const uint64_t file_size = 2 * MIB + 77;
	const char *path = scratch_image("disk.img", file_size, FILE_PATTERN);
	char offset_parameter[32], limit_parameter[32];
	struct server *server;
	struct nbd_handle *client;
	struct stat status;

	snprintf(offset_parameter, sizeof(offset_parameter), "offset=%llu",
		 (unsigned long long)offset);
	snprintf(limit_parameter, sizeof(limit_parameter), "sizelimit=%llu",
		 (unsigned long long)size);
	server = server_start(
		target, &(struct server_config){.file = path,
						.direct_io_auto = direct_io_auto,
						.parameters = {offset_parameter, limit_parameter}});
	client = client_connect(server, "");
	ck_assert_int_eq(nbd_get_size(client), size);
	change_the_edges(client, size);
	client_close(client);
	server_stop(server);
	scratch_expect(path, 0, offset, FILE_PATTERN);
	scratch_expect(path, offset + size, file_size - offset - size, FILE_PATTERN);
	ck_assert_int_eq(stat(path, &status), 0);
	ck_assert_int_eq(status.st_size, file_size);
}

START_TEST(bytes_outside_of_the_window_never_change)
{
	expect_bytes_outside_to_stay(TARGET, 3 * 512, MIB + 512, false);
	expect_bytes_outside_to_stay(TARGET, 64 * 1024, MIB, false);
}
END_TEST

START_TEST(bytes_outside_of_a_window_that_starts_inside_of_a_sector_never_change)
{
	expect_bytes_outside_to_stay(TARGET, 1000, MIB, true);
	expect_bytes_outside_to_stay(TARGET, 4095, MIB + 512, true);
}
END_TEST

/* The alignment that direct I/O to a file needs; 512 where the kernel doesn't report it. */
static uint64_t
direct_io_size(const char *path)
{
#ifdef STATX_DIOALIGN
	struct statx status;

	if (statx(AT_FDCWD, path, 0, STATX_DIOALIGN, &status) == 0 &&
	    status.stx_mask & STATX_DIOALIGN && status.stx_dio_offset_align > 512)
		return status.stx_dio_offset_align;
#endif
	return 512;
}

static void
expect_block_sizes(const struct target *target, const char *path, const char *parameter,
		   int64_t minimum)
{
	struct server *server = server_start(
		target, &(struct server_config){.file = path, .parameters = {parameter}});
	struct nbd_handle *client = client_connect(server, "");
	int64_t preferred = nbd_get_block_size(client, LIBNBD_SIZE_PREFERRED);

	ck_assert_int_eq(nbd_get_block_size(client, LIBNBD_SIZE_MINIMUM), minimum);
	ck_assert_int_ge(preferred, minimum);
	ck_assert_int_eq(preferred & (preferred - 1), 0);
	ck_assert_int_eq(nbd_get_block_size(client, LIBNBD_SIZE_MAXIMUM), 32 * MIB);
	client_close(client);
	server_stop(server);
}

/* But for disks with larger sectors, any bytes are told to be possible unless the user says else.
 */
START_TEST(sector_size_is_the_least_block_size_that_clients_are_told)
{
	const char *path = scratch_image("disk.img", MIB, FILE_PATTERN);
	uint64_t least = TARGET->direct_io ? direct_io_size(path) : 512;

	expect_block_sizes(TARGET, path, NULL, least > 512 ? (int64_t)least : 1);
	expect_block_sizes(TARGET, path, "sector-size=1", 1);
	if (least <= 512)
		expect_block_sizes(TARGET, path, "sector-size=512", 512);
	if (least <= 1024)
		expect_block_sizes(TARGET, path, "sector-size=1024", 1024);
	if (least <= 2048)
		expect_block_sizes(TARGET, path, "sector-size=2048", 2048);
	expect_block_sizes(TARGET, path, "sector-size=4096", 4096);
}
END_TEST

static void
add_tests(TCase *tests, int row)
{
	target_add_test(tests, window_size_is_rounded_where_the_user_says_so, row);
	target_add_test(tests, partial_sector_at_the_end_is_left_out_with_a_warning, row);
	target_add_test(tests, file_smaller_than_a_sector_is_served_with_size_zero_and_a_warning,
			row);
	target_add_file_test(tests, every_byte_of_a_file_with_an_odd_size_can_be_changed, row);
	target_add_test(tests, client_reads_the_window_and_nothing_else, row);
	target_add_file_test(tests, bytes_outside_of_the_window_never_change, row);
	target_add_file_test(
		tests, bytes_outside_of_a_window_that_starts_inside_of_a_sector_never_change, row);
	target_add_test(tests, sector_size_is_the_least_block_size_that_clients_are_told, row);
}

int
main(void)
{
	return target_main("window", add_tests, 0);
}
