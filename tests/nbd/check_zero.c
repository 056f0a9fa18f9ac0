/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Zero and trim on a file: the range reads as zeroes, its neighbours keep their bytes, and space is
 * freed or kept as client and administrator asked.
 */
#include "tests/nbd/client.h"
#include "tests/nbd/scratch.h"
#include "tests/nbd/target.h"

#define FILE_PATTERN 1
#define IMAGE_SIZE   (16 * MIB)
#define RANGES_END   (6 * MIB) /* size of the image in which ranges are zeroed */

/* Ranges that begin and end anywhere in sectors, pages and file system blocks. */
static const struct {
	uint64_t offset, length;
} ranges[] = {
	{0, 1},
	{511, 2},
	{512, 512},
	{700, 100},
	{4096, 4096},
	{1000, 9000},
	{4095, 4098},
	{100, MIB - 300},
	{2 * MIB + 512, MIB + 1024},
	{3 * MIB - 1, 2 * MIB + 2},
	{RANGES_END - 1, 1},
	{RANGES_END - 5000, 5000},
	{0, RANGES_END},
};

/* Each range starts from an image full of data. */
static void
zero_each_range(const struct target *target, uint32_t flags, const char *parameter)
{
	const char *path = scratch_image("disk.img", RANGES_END, FILE_PATTERN);
	struct server *server = server_start(
		target, &(struct server_config){.file = path, .parameters = {parameter}});
	struct nbd_handle *client = client_connect(server, "");

	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		uint64_t offset = ranges[i].offset, length = ranges[i].length;
		uint64_t end = offset + length;

		client_zero(client, offset, length, flags);
		client_expect(client, 0, offset, FILE_PATTERN);
		client_expect(client, offset, length, PATTERN_ZEROES);
		client_expect(client, end, RANGES_END - end, FILE_PATTERN);
		client_write(client, offset, length, FILE_PATTERN, 0);
	}
	client_expect(client, 0, RANGES_END, FILE_PATTERN);
	client_close(client);
	server_stop(server);
	scratch_expect(path, 0, RANGES_END, FILE_PATTERN);
}

START_TEST(zeroed_range_of_any_alignment_reads_zero_and_neighbours_stay)
{
	zero_each_range(TARGET, 0, NULL);
}
END_TEST

START_TEST(range_zeroed_without_a_hole_reads_zero_and_neighbours_stay)
{
	zero_each_range(TARGET, LIBNBD_CMD_FLAG_NO_HOLE, NULL);
}
END_TEST

START_TEST(range_zeroed_with_discard_off_reads_zero_and_neighbours_stay)
{
	zero_each_range(TARGET, 0, "discard=off");
}
END_TEST

START_TEST(trimmed_range_of_any_alignment_leaves_neighbours)
{
	const char *path = scratch_image("disk.img", RANGES_END, FILE_PATTERN);
	struct server *server = server_start(TARGET, &(struct server_config){.file = path});
	struct nbd_handle *client = client_connect(server, "");

	ck_assert_int_eq(nbd_can_trim(client), 1);
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		uint64_t offset = ranges[i].offset, length = ranges[i].length;
		uint64_t end = offset + length;

		client_trim(client, offset, length, 0);
		client_expect(client, 0, offset, FILE_PATTERN);
		client_expect(client, end, RANGES_END - end, FILE_PATTERN);
		client_write(client, offset, length, FILE_PATTERN, 0);
		client_expect(client, offset, length, FILE_PATTERN);
	}
	client_close(client);
	server_stop(server);
	scratch_expect(path, 0, RANGES_END, FILE_PATTERN);
}
END_TEST

/* The space that the image occupies after its middle 8 MiB were zeroed or trimmed. */
static uint64_t
allocated_after(const struct target *target, bool trim, uint32_t flags, const char *parameter)
{
	const char *path = scratch_image("disk.img", IMAGE_SIZE, FILE_PATTERN);
	struct server *server = server_start(
		target, &(struct server_config){.file = path, .parameters = {parameter}});
	struct nbd_handle *client = client_connect(server, "");

	ck_assert_uint_ge(scratch_allocated(path), IMAGE_SIZE);
	if (trim)
		client_trim(client, 4 * MIB, 8 * MIB, flags);
	else
		client_zero(client, 4 * MIB, 8 * MIB, flags);
	client_close(client);
	server_stop(server);
	scratch_expect(path, 0, 4 * MIB, FILE_PATTERN);
	scratch_expect(path, 12 * MIB, 4 * MIB, FILE_PATTERN);
	return scratch_allocated(path);
}

/* The file system's blocks for the map of the file are counted, too. */
#define HOLE_LEAVES (8 * MIB + 256 * 1024)

START_TEST(trim_gives_space_back)
{
	ck_assert_uint_le(allocated_after(TARGET, true, 0, NULL), HOLE_LEAVES);
}
END_TEST

START_TEST(zero_gives_space_back_where_the_client_allows_it)
{
	ck_assert_uint_le(allocated_after(TARGET, false, 0, NULL), HOLE_LEAVES);
}
END_TEST

START_TEST(zero_without_a_hole_keeps_space)
{
	ck_assert_uint_ge(allocated_after(TARGET, false, LIBNBD_CMD_FLAG_NO_HOLE, NULL),
			  IMAGE_SIZE);
}
END_TEST

START_TEST(zero_without_a_hole_allocates_space_in_a_sparse_image)
{
	const char *path = scratch_sparse_image("disk.img", IMAGE_SIZE);
	struct server *server = server_start(TARGET, &(struct server_config){.file = path});
	struct nbd_handle *client = client_connect(server, "");

	client_zero(client, 4 * MIB + 100, 8 * MIB, LIBNBD_CMD_FLAG_NO_HOLE);
	client_flush(client);
	ck_assert_uint_ge(scratch_allocated(path), 8 * MIB);
	client_expect(client, 0, IMAGE_SIZE, PATTERN_ZEROES);
	client_close(client);
	server_stop(server);
}
END_TEST

START_TEST(discard_off_offers_no_trim_and_keeps_space_when_zeroing)
{
	const char *path = scratch_image("other.img", MIB, FILE_PATTERN);
	struct server *server = server_start(
		TARGET, &(struct server_config){.file = path, .parameters = {"discard=off"}});
	struct nbd_handle *client = client_connect(server, "");

	ck_assert_int_eq(nbd_can_trim(client), 0);
	ck_assert_int_eq(nbd_can_zero(client), 1);
	client_close(client);
	server_stop(server);
	ck_assert_uint_ge(allocated_after(TARGET, false, 0, "discard=off"), IMAGE_SIZE);
}
END_TEST

START_TEST(fast_zero_works_on_a_file_that_can_have_holes)
{
	const char *path = scratch_image("disk.img", IMAGE_SIZE, FILE_PATTERN);
	struct server *server = server_start(TARGET, &(struct server_config){.file = path});
	struct nbd_handle *client = client_connect(server, "");

	ck_assert_int_eq(nbd_can_fast_zero(client), 1);
	client_zero(client, 4 * MIB, MIB, LIBNBD_CMD_FLAG_FAST_ZERO);
	client_zero(client, 8 * MIB + 100, MIB, LIBNBD_CMD_FLAG_FAST_ZERO);
	client_expect(client, 0, 4 * MIB, FILE_PATTERN);
	client_expect(client, 4 * MIB, MIB, PATTERN_ZEROES);
	client_expect(client, 5 * MIB, 3 * MIB + 100, FILE_PATTERN);
	client_expect(client, 8 * MIB + 100, MIB, PATTERN_ZEROES);
	client_expect(client, 9 * MIB + 100, 7 * MIB - 100, FILE_PATTERN);
	client_close(client);
	server_stop(server);
}
END_TEST

/* nbdkit up to 1.44 loses all but the first 64 MiB of a request that its plugin leaves to it. */
static void
zero_200_mib(const struct target *target, uint32_t flags)
{
	const uint64_t size = 204 * MIB, offset = 2 * MIB + 100, length = 200 * MIB;
	const char *path = scratch_marked_image("disk.img", size, FILE_PATTERN);
	struct server *server = server_start(target, &(struct server_config){.file = path});
	struct nbd_handle *client = client_connect(server, "");

	client_zero(client, offset, length, flags);
	client_close(client);
	server_stop(server);
	scratch_expect_marks(path, 0, offset, FILE_PATTERN);
	scratch_expect_marks(path, offset, offset + length, PATTERN_ZEROES);
	scratch_expect_marks(path, offset + length, size, FILE_PATTERN);
}

START_TEST(zero_request_of_200_mib_zeroes_all_of_them)
{
	zero_200_mib(TARGET, 0);
}
END_TEST

static void
add_tests(TCase *tests, int row)
{
	target_add_test(tests, zeroed_range_of_any_alignment_reads_zero_and_neighbours_stay, row);
	target_add_test(tests, range_zeroed_without_a_hole_reads_zero_and_neighbours_stay, row);
	target_add_test(tests, range_zeroed_with_discard_off_reads_zero_and_neighbours_stay, row);
	target_add_test(tests, trimmed_range_of_any_alignment_leaves_neighbours, row);
	target_add_file_test(tests, trim_gives_space_back, row);
	target_add_file_test(tests, zero_gives_space_back_where_the_client_allows_it, row);
	target_add_file_test(tests, zero_without_a_hole_keeps_space, row);
	target_add_file_test(tests, zero_without_a_hole_allocates_space_in_a_sparse_image, row);
	target_add_file_test(tests, discard_off_offers_no_trim_and_keeps_space_when_zeroing, row);
	target_add_test(tests, fast_zero_works_on_a_file_that_can_have_holes, row);
	target_add_test(tests, zero_request_of_200_mib_zeroes_all_of_them, row);
}

int
main(void)
{
	return target_main("zero", add_tests, 0);
}
