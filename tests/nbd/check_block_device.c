/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Block devices as images: loop devices, also with sectors of 4 KiB.
 */
#include "tests/nbd/client.h"
#include "tests/nbd/crew.h"
#include "tests/nbd/loop_device.h"
#include "tests/nbd/neighbours.h"
#include "tests/nbd/rng.h"
#include "tests/nbd/scratch.h"
#include "tests/nbd/target.h"

#include <errno.h>
#include <sys/stat.h>

#define OLD  1
#define NEW  2
#define SIZE (16 * MIB)

struct disk {
	const char *backing;
	struct loop_device device;
	struct server *server;
	struct nbd_handle *client;
};

static void
disk_init_on(struct disk *disk, const struct target *target, const char *backing,
	     uint32_t sector_size, const char *parameter, const char *other_parameter)
{
	disk->backing = backing;
	loop_device_attach(&disk->device, disk->backing, sector_size, false);
	disk->server = server_start(
		target, &(struct server_config){.file = disk->device.path,
						.parameters = {parameter, other_parameter},
						/* Enough for one request per connection. */
						.threads = 2});
	disk->client = client_connect(disk->server, "");
}

static void
disk_init(struct disk *disk, const struct target *target, uint64_t size, uint32_t sector_size,
	  const char *parameter, const char *other_parameter)
{
	disk_init_on(disk, target, scratch_image("disk.backing", size, OLD), sector_size, parameter,
		     other_parameter);
}

static void
disk_fini(struct disk *disk)
{
	client_close(disk->client);
	server_stop(disk->server);
	loop_device_detach(&disk->device);
}

START_TEST(block_device_is_served_whole_and_right)
{
	struct disk disk;

	disk_init(&disk, TARGET, SIZE, 512, NULL, NULL);
	ck_assert_int_eq(nbd_get_size(disk.client), SIZE);
	ck_assert_int_eq(nbd_get_block_size(disk.client, LIBNBD_SIZE_MINIMUM), 1);
	client_expect(disk.client, 0, SIZE, OLD);
	client_write(disk.client, 3 * MIB, MIB, NEW, 0);
	client_write(disk.client, 5 * MIB + 77, 100, NEW, 0);
	client_write(disk.client, SIZE - 512, 512, NEW, 0);
	client_flush(disk.client);
	scratch_expect(disk.backing, 0, 3 * MIB, OLD);
	scratch_expect(disk.backing, 3 * MIB, MIB, NEW);
	scratch_expect(disk.backing, 4 * MIB, MIB + 77, OLD);
	scratch_expect(disk.backing, 5 * MIB + 77, 100, NEW);
	scratch_expect(disk.backing, 5 * MIB + 177, SIZE - 512 - 5 * MIB - 177, OLD);
	scratch_expect(disk.backing, SIZE - 512, 512, NEW);
	disk_fini(&disk);
}
END_TEST

START_TEST(window_of_a_block_device_leaves_the_rest_alone)
{
	struct disk disk;

	disk_init(&disk, TARGET, SIZE, 512, "offset=1536", "sizelimit=5M");
	ck_assert_int_eq(nbd_get_size(disk.client), 5 * MIB);
	client_write(disk.client, 0, 700, NEW, 0);
	client_zero(disk.client, 1000, 5 * MIB - 2000, 0);
	client_trim(disk.client, 0, 5 * MIB, 0);
	client_zero(disk.client, 0, 5 * MIB, LIBNBD_CMD_FLAG_NO_HOLE);
	client_expect(disk.client, 0, 5 * MIB, PATTERN_ZEROES);
	client_flush(disk.client);
	scratch_expect(disk.backing, 0, 1536, OLD);
	scratch_expect(disk.backing, 1536, 5 * MIB, PATTERN_ZEROES);
	scratch_expect(disk.backing, 5 * MIB + 1536, SIZE - 5 * MIB - 1536, OLD);
	disk_fini(&disk);
}
END_TEST

START_TEST(read_only_block_device_is_a_read_only_export)
{
	struct loop_device device;
	struct server *server;
	struct nbd_handle *client;
	char data[512] = "";

	loop_device_attach(&device, scratch_image("disk.backing", SIZE, OLD), 512, true);
	for (int read_only = 0; read_only <= 1; read_only++) {
		server = server_start(TARGET, &(struct server_config){.file = device.path,
								      .read_only = read_only});
		client = client_connect(server, "");
		ck_assert_int_eq(nbd_is_read_only(client), 1);
		client_expect(client, 0, SIZE, OLD);
		client_send_anything(client);
		client_refused(nbd_pwrite(client, data, sizeof(data), 0, 0), EPERM);
		client_close(client);
		server_expect_log(server, device.path, "read-only");
		server_stop(server);
	}
	loop_device_detach(&device);
}
END_TEST

START_TEST(sectors_of_4_kib_are_told_and_smaller_requests_served)
{
	static const struct {
		uint64_t offset, length;
	} parts[] = {
		{512, 512}, {4096 - 1, 2}, {10000, 20000}, {MIB + 512, MIB}, {SIZE - 100, 100},
	};
	struct disk disk;

	disk_init(&disk, TARGET, SIZE, 4096, NULL, NULL);
	ck_assert_int_eq(nbd_get_block_size(disk.client, LIBNBD_SIZE_MINIMUM),
			 TARGET->direct_io ? 4096 : 1);
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		uint64_t offset = parts[i].offset, length = parts[i].length;

		client_expect(disk.client, offset, length, OLD);
		client_write(disk.client, offset, length, NEW, 0);
		client_expect(disk.client, offset, length, NEW);
		client_zero(disk.client, offset, length, 0);
		client_expect(disk.client, offset, length, PATTERN_ZEROES);
		client_write(disk.client, offset, length, OLD, 0);
		client_zero(disk.client, offset, length, LIBNBD_CMD_FLAG_NO_HOLE);
		client_expect(disk.client, offset, length, PATTERN_ZEROES);
		client_trim(disk.client, offset, length, 0);
		client_write(disk.client, offset, length, OLD, 0);
		client_expect(disk.client, 0, SIZE, OLD);
	}
	disk_fini(&disk);
}
END_TEST

static void
run_neighbours(const struct target *target, void (*kind)(struct neighbours *neighbours),
	       struct neighbours neighbours)
{
	struct disk disk;

	disk_init(&disk, target, SIZE, 4096, NULL, NULL);
	neighbours.server = disk.server;
	neighbours.names = (const char *const[]){""};
	neighbours.name_count = 1;
	neighbours.seed = rng_seed();
	neighbours.rounds = crew_rounds(neighbours.rounds);
	kind(&neighbours);
	client_flush(disk.client);
	scratch_expect(disk.backing, 0, neighbours.offset, OLD);
	scratch_expect(disk.backing, MIB, MIB, OLD);
	disk_fini(&disk);
}

START_TEST(eight_writers_of_one_4_kib_sector_keep_their_bytes)
{
	run_neighbours(TARGET, neighbours_write,
		       (struct neighbours){
			       .offset = 8192, .length = 512, .connections = 8, .rounds = 300});
}
END_TEST

START_TEST(writing_zeroing_and_trimming_parts_of_4_kib_sectors_keeps_neighbours)
{
	run_neighbours(
		TARGET, neighbours_change,
		(struct neighbours){
			.offset = 8192 + 100, .length = 10001, .connections = 8, .rounds = 150});
}
END_TEST

START_TEST(part_of_a_4_kib_sector_written_during_whole_writes_loses_none_of_them)
{
	run_neighbours(TARGET, neighbours_overlap,
		       (struct neighbours){
			       .offset = 8192, .length = 4096, .connections = 4, .rounds = 300});
}
END_TEST

/* Any alignment and all flags; also 200 MiB in one request, of which nbdkit's own fallback loses
 * most. */
START_TEST(zeroed_ranges_of_a_block_device_read_zero_and_neighbours_stay)
{
	static const uint32_t flags[] = {0, LIBNBD_CMD_FLAG_NO_HOLE};
	const uint64_t size = 204 * MIB;
	struct disk disk;

	disk_init_on(&disk, TARGET, scratch_marked_image("disk.backing", size, OLD), 512, NULL,
		     NULL);
	for (size_t i = 0; i < 2; i++) {
		client_write(disk.client, 0, 2 * MIB, OLD, 0);
		for (uint64_t mark = 2 * MIB; mark < size; mark += MIB)
			client_write(disk.client, mark, 4096, OLD, 0);
		client_zero(disk.client, 512, 1024, flags[i]);
		client_expect(disk.client, 0, 512, OLD);
		client_expect(disk.client, 512, 1024, PATTERN_ZEROES);
		client_zero(disk.client, MIB + 100, 9000, flags[i]);
		client_expect(disk.client, 1536, MIB + 100 - 1536, OLD);
		client_expect(disk.client, MIB + 100, 9000, PATTERN_ZEROES);
		client_expect(disk.client, MIB + 9100, 4096, OLD);
		client_zero(disk.client, 2 * MIB + 100, 200 * MIB, flags[i]);
		client_flush(disk.client);
		scratch_expect(disk.backing, MIB + 9100, MIB - 9000, OLD);
		scratch_expect_marks(disk.backing, 2 * MIB + 100, 202 * MIB + 100, PATTERN_ZEROES);
		scratch_expect_marks(disk.backing, 202 * MIB + 100, size, OLD);
	}
	disk_fini(&disk);
}
END_TEST

START_TEST(trim_of_a_block_device_gives_space_back_and_discard_off_keeps_it)
{
	struct disk disk;

	disk_init(&disk, TARGET, SIZE, 512, NULL, NULL);
	ck_assert_int_eq(nbd_can_trim(disk.client), 1);
	client_trim(disk.client, 4 * MIB, 8 * MIB, 0);
	client_flush(disk.client);
	ck_assert_uint_le(scratch_allocated(disk.backing), SIZE - 8 * MIB + MIB);
	client_expect(disk.client, 0, 4 * MIB, OLD);
	client_expect(disk.client, 12 * MIB, 4 * MIB, OLD);
	disk_fini(&disk);

	disk_init(&disk, TARGET, SIZE, 512, "discard=off", NULL);
	ck_assert_int_eq(nbd_can_trim(disk.client), 0);
	client_zero(disk.client, 4 * MIB, 8 * MIB, 0);
	client_flush(disk.client);
	ck_assert_uint_ge(scratch_allocated(disk.backing), SIZE);
	scratch_expect(disk.backing, 4 * MIB, 8 * MIB, PATTERN_ZEROES);
	disk_fini(&disk);
}
END_TEST

START_TEST(zero_without_a_hole_keeps_a_block_device_allocated)
{
	struct disk disk;

	disk_init(&disk, TARGET, SIZE, 512, NULL, NULL);
	client_zero(disk.client, 4 * MIB, 8 * MIB, LIBNBD_CMD_FLAG_NO_HOLE);
	client_flush(disk.client);
	ck_assert_uint_ge(scratch_allocated(disk.backing), SIZE);
	scratch_expect(disk.backing, 4 * MIB, 8 * MIB, PATTERN_ZEROES);
	disk_fini(&disk);
}
END_TEST

/* A device has no map of holes; no answer may call data a hole or zero. */
static int
no_hole(void *data, const char *context, uint64_t offset, uint32_t *entries, size_t count,
	int *error)
{
	uint64_t *end = data;

	(void)context;
	(void)error;
	ck_assert_uint_eq(offset, *end);
	for (size_t i = 0; i + 1 < count; i += 2) {
		ck_assert_uint_eq(entries[i + 1], 0);
		*end += entries[i];
	}
	return 0;
}

START_TEST(block_status_of_a_block_device_calls_no_data_a_hole)
{
	struct disk disk;
	uint64_t end = 0;

	disk_init(&disk, TARGET, SIZE, 512, NULL, NULL);
	if (nbd_can_meta_context(disk.client, LIBNBD_CONTEXT_BASE_ALLOCATION)) {
		client_done_at(__FILE__, __LINE__,
			       nbd_block_status(disk.client, SIZE, 0,
						(nbd_extent_callback){.callback = no_hole,
								      .user_data = &end},
						0));
		ck_assert_uint_gt(end, 0);
		ck_assert_uint_le(end, SIZE);
	}
	disk_fini(&disk);
}
END_TEST

START_TEST(device_node_in_a_directory_is_no_export)
{
	struct loop_device device;
	struct server *server;
	struct nbd_handle *client;
	struct stat status;

	loop_device_attach(&device, scratch_image("disk.backing", SIZE, OLD), 512, false);
	ck_assert_int_eq(stat(device.path, &status), 0);
	ck_assert_int_eq(mkdir(scratch_path("images"), 0755), 0);
	ck_assert_int_eq(mknod(scratch_path("images/node"), S_IFBLK | 0666, status.st_rdev), 0);
	scratch_image("images/disk.img", MIB, NEW);
	server = server_start(TARGET, &(struct server_config){.dir = scratch_path("images")});
	ck_assert_ptr_null(client_try_connect(server, "node"));
	client = client_connect(server, "disk.img");
	client_expect(client, 0, MIB, NEW);
	client_close(client);
	server_stop(server);
	loop_device_detach(&device);
}
END_TEST

static void
add_tests(TCase *tests, int row)
{
	target_add_test(tests, block_device_is_served_whole_and_right, row);
	target_add_test(tests, window_of_a_block_device_leaves_the_rest_alone, row);
	target_add_test(tests, read_only_block_device_is_a_read_only_export, row);
	target_add_test(tests, sectors_of_4_kib_are_told_and_smaller_requests_served, row);
	target_add_test(tests, eight_writers_of_one_4_kib_sector_keep_their_bytes, row);
	target_add_test(tests, writing_zeroing_and_trimming_parts_of_4_kib_sectors_keeps_neighbours,
			row);
	target_add_test(tests,
			part_of_a_4_kib_sector_written_during_whole_writes_loses_none_of_them, row);
	target_add_test(tests, zeroed_ranges_of_a_block_device_read_zero_and_neighbours_stay, row);
	target_add_test(tests, trim_of_a_block_device_gives_space_back_and_discard_off_keeps_it,
			row);
	target_add_test(tests, zero_without_a_hole_keeps_a_block_device_allocated, row);
	target_add_test(tests, block_status_of_a_block_device_calls_no_data_a_hole, row);
	target_add_test_of(TARGET_PLUGIN, tests, device_node_in_a_directory_is_no_export, row);
}

int
main(void)
{
	return target_main("block_device", add_tests, TARGET_NEEDS_ROOT | TARGET_NEVER_POLLED);
}
