/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * FUA and flush reach the disk before the client gets its reply. The disk is a loop device: the
 * kernel counts the flush requests that the device has completed, and its backing file holds
 * exactly what was written to the device, whatever the page cache still holds.
 */
#include "tests/nbd/client.h"
#include "tests/nbd/loop_device.h"
#include "tests/nbd/scratch.h"
#include "tests/nbd/target.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define OLD  1
#define NEW  2
#define SIZE (16 * MIB)

struct disk {
	const char *backing;
	struct loop_device device;
	struct server *server;
	struct nbd_handle *client;
	uint64_t flushes; /* flush requests seen so far */
};

static void
disk_init(struct disk *disk, const struct target *target, uint64_t size)
{
	disk->backing = scratch_image("disk.backing", size, OLD);
	loop_device_attach(&disk->device, disk->backing, 512, false);
	disk->server = server_start(target, &(struct server_config){.file = disk->device.path});
	disk->client = client_connect(disk->server, "");
	ck_assert_int_eq(nbd_can_flush(disk->client), 1);
	ck_assert_int_eq(nbd_can_fua(disk->client), 1);
	disk->flushes = loop_device_flushes(&disk->device);
}

static void
disk_fini(struct disk *disk)
{
	client_close(disk->client);
	server_stop(disk->server);
	loop_device_detach(&disk->device);
}

/* Flushes that the disk completed since the last call. */
static uint64_t
disk_flushed(struct disk *disk)
{
	uint64_t before = disk->flushes;

	disk->flushes = loop_device_flushes(&disk->device);
	return disk->flushes - before;
}

START_TEST(write_with_fua_is_on_disk_and_flushed_when_it_is_answered)
{
	static const struct {
		uint64_t offset, length;
	} writes[] = {
		{0, 512},
		{4096, 4096},
		{MIB + 100, 30},       /* within a block */
		{2 * MIB + 500, 9000}, /* across the edges of blocks */
		{4 * MIB, 8 * MIB},    /* in several pieces */
		{16 * MIB + 1, 32 * MIB - 7},
	};
	struct disk disk;

	disk_init(&disk, TARGET, 49 * MIB);
	for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++) {
		uint64_t offset = writes[i].offset, length = writes[i].length;

		client_write(disk.client, offset, length, NEW, LIBNBD_CMD_FLAG_FUA);
		ck_assert_uint_ge(disk_flushed(&disk), 1);
		scratch_expect(disk.backing, offset, length, NEW);
		scratch_expect(disk.backing, offset + length, 4096, OLD);
	}
	disk_fini(&disk);
}
END_TEST

START_TEST(write_without_fua_costs_no_flush)
{
	struct disk disk;

	disk_init(&disk, TARGET, SIZE);
	for (uint64_t i = 0; i < 50; i++)
		client_write(disk.client, i * 10000, i % 2 ? 4096 : 700, NEW, 0);
	ck_assert_uint_eq(disk_flushed(&disk), 0);
	disk_fini(&disk);
}
END_TEST

START_TEST(zero_with_fua_is_on_disk_and_flushed_when_it_is_answered)
{
	static const uint32_t flags[] = {0, LIBNBD_CMD_FLAG_NO_HOLE};
	struct disk disk;

	disk_init(&disk, TARGET, SIZE);
	for (uint64_t i = 0; i < 2; i++) {
		uint64_t offset = i * 8 * MIB;

		client_zero(disk.client, offset, MIB, flags[i] | LIBNBD_CMD_FLAG_FUA);
		ck_assert_uint_ge(disk_flushed(&disk), 1);
		scratch_expect(disk.backing, offset, MIB, PATTERN_ZEROES);

		client_zero(disk.client, offset + 2 * MIB + 100, 9000,
			    flags[i] | LIBNBD_CMD_FLAG_FUA);
		ck_assert_uint_ge(disk_flushed(&disk), 1);
		scratch_expect(disk.backing, offset + 2 * MIB + 100, 9000, PATTERN_ZEROES);

		client_zero(disk.client, offset + 3 * MIB + 10, 20, flags[i] | LIBNBD_CMD_FLAG_FUA);
		ck_assert_uint_ge(disk_flushed(&disk), 1);
		scratch_expect(disk.backing, offset + 3 * MIB + 10, 20, PATTERN_ZEROES);
	}
	disk_fini(&disk);
}
END_TEST

START_TEST(trim_with_fua_is_flushed_when_it_is_answered)
{
	struct disk disk;

	disk_init(&disk, TARGET, SIZE);
	client_trim(disk.client, MIB, MIB, LIBNBD_CMD_FLAG_FUA);
	ck_assert_uint_ge(disk_flushed(&disk), 1);
	client_trim(disk.client, 4 * MIB + 100, 9000, LIBNBD_CMD_FLAG_FUA);
	ck_assert_uint_ge(disk_flushed(&disk), 1);
	disk_fini(&disk);
}
END_TEST

START_TEST(flush_puts_earlier_writes_on_disk_and_flushes_it)
{
	struct disk disk;

	disk_init(&disk, TARGET, SIZE);
	client_write(disk.client, 0, MIB, NEW, 0);
	client_write(disk.client, 2 * MIB + 100, 50, NEW, 0);
	client_zero(disk.client, 3 * MIB + 100, 9000, 0);
	/* Where data waits in the page cache, a flush must write it to the disk. A sweep may have
	 * written it back already, but flushes no disk. */
	if (!TARGET->direct_io && !TARGET->drop)
		scratch_expect(disk.backing, 0, MIB, OLD);
	disk_flushed(&disk);
	client_flush(disk.client);
	ck_assert_uint_ge(disk_flushed(&disk), 1);
	scratch_expect(disk.backing, 0, MIB, NEW);
	scratch_expect(disk.backing, 2 * MIB + 100, 50, NEW);
	scratch_expect(disk.backing, 3 * MIB + 100, 9000, PATTERN_ZEROES);
	disk_fini(&disk);
}
END_TEST

START_TEST(flush_covers_what_other_connections_wrote)
{
	struct disk disk;
	struct nbd_handle *other;

	disk_init(&disk, TARGET, SIZE);
	other = client_connect(disk.server, "");
	for (unsigned int round = 0; round < 5; round++) {
		uint64_t offset = round * 2 * MIB;

		client_write(disk.client, offset, MIB, NEW, 0);
		disk_flushed(&disk);
		client_flush(other);
		ck_assert_uint_ge(disk_flushed(&disk), 1);
		scratch_expect(disk.backing, offset, MIB, NEW);
	}
	client_close(other);
	disk_fini(&disk);
}
END_TEST

START_TEST(every_flush_and_every_fua_write_is_a_flush_of_its_own)
{
	struct disk disk;

	disk_init(&disk, TARGET, SIZE);
	for (uint64_t i = 0; i < 20; i++) {
		client_write(disk.client, i * 4096, 4096, NEW, LIBNBD_CMD_FLAG_FUA);
		client_write(disk.client, i * 4096, 512, NEW, 0);
		client_flush(disk.client);
	}
	ck_assert_uint_ge(disk_flushed(&disk), 40);
	disk_fini(&disk);
}
END_TEST

/* A file system between image and disk flushes, too; its own write-back is suppressed here. */
START_TEST(fua_and_flush_reach_the_disk_beneath_a_file_system)
{
	struct loop_device device;
	const char *backing = scratch_sparse_image("disk.backing", 64 * MIB);
	uint64_t flushes;
	bool quiet = false;
	char image[512];
	struct server *server;
	struct nbd_handle *client;

	loop_device_attach(&device, backing, 512, false);
	snprintf(image, sizeof(image), "%s/disk.img",
		 file_system_make(&device, "mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0",
				  "ext4", "commit=600,lazytime"));
	close(open(image, O_CREAT | O_WRONLY, 0600));
	scratch_write(image, 0, 16 * MIB, OLD);
	server = server_start(TARGET, &(struct server_config){.file = image});
	client = client_connect(server, "");

	/* Another process on this machine may call sync(), but not five times at the wrong
	 * moment. */
	for (int tries = 5; tries > 0; tries--) {
		flushes = loop_device_flushes(&device);
		client_write(client, MIB, MIB, NEW, 0);
		client_write(client, 4 * MIB + 100, 50, NEW, 0);
		quiet = loop_device_flushes(&device) == flushes;
		if (quiet)
			break;
	}
	ck_assert(quiet);
	client_flush(client);
	ck_assert_uint_gt(loop_device_flushes(&device), flushes);

	flushes = loop_device_flushes(&device);
	client_write(client, 8 * MIB, MIB, NEW, LIBNBD_CMD_FLAG_FUA);
	ck_assert_uint_gt(loop_device_flushes(&device), flushes);

	flushes = loop_device_flushes(&device);
	client_write(client, 10 * MIB + 100, 50, NEW, LIBNBD_CMD_FLAG_FUA);
	ck_assert_uint_gt(loop_device_flushes(&device), flushes);

	flushes = loop_device_flushes(&device);
	client_zero(client, 12 * MIB, MIB, LIBNBD_CMD_FLAG_FUA);
	ck_assert_uint_gt(loop_device_flushes(&device), flushes);

	client_close(client);
	server_stop(server);
	file_system_unmount();
	loop_device_detach(&device);
}
END_TEST

static void
add_tests(TCase *tests, int row)
{
	target_add_test(tests, write_with_fua_is_on_disk_and_flushed_when_it_is_answered, row);
	target_add_test(tests, write_without_fua_costs_no_flush, row);
	target_add_test(tests, zero_with_fua_is_on_disk_and_flushed_when_it_is_answered, row);
	target_add_test(tests, trim_with_fua_is_flushed_when_it_is_answered, row);
	target_add_test(tests, flush_puts_earlier_writes_on_disk_and_flushes_it, row);
	target_add_test(tests, flush_covers_what_other_connections_wrote, row);
	target_add_test(tests, every_flush_and_every_fua_write_is_a_flush_of_its_own, row);
	target_add_test(tests, fua_and_flush_reach_the_disk_beneath_a_file_system, row);
}

int
main(void)
{
	return target_main("durability", add_tests, TARGET_NEEDS_ROOT | TARGET_NEVER_POLLED);
}
