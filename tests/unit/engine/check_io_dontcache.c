/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * page-cache=drop: which transfers of an io are made with RWF_DONTCACHE.
 */
#include "engine/io/io.h"

#include "tests/lib/suite.h"
#include "tests/unit/fake_image.h"
#include "tests/unit/log_capture.h"

#include <check.h>
#include <errno.h>
#include <string.h>

#define KIB 1024u
#define MIB (1u << 20)

static struct fake_image disk;
static unsigned char *memory; /* 4 MiB, page-aligned */

static void
open_with(const struct fake_facts *facts)
{
	log_capture_begin();
	fake_image_open(&disk, facts);
	memory = buffer_new(4 * MIB, 0);
}

static void
close_disk(void)
{
	buffer_free(memory);
	fake_image_close(&disk);
	log_capture_end();
}

static const struct {
	enum io_op op;
	unsigned int flags;
	uint64_t offset, length;
	bool dontcache;
} drops[] = {
	{IO_READ, 0, 4096, 4096, true},       {IO_READ, 0, 0, MIB, true},
	{IO_READ, 0, 512, 4096, false},                                         /* parts of pages */
	{IO_READ, 0, 4096, 512, false},       {IO_WRITE, 0, 4096, 4096, false}, /* small */
	{IO_WRITE, 0, 0, 124 * KIB, false},   {IO_WRITE, 0, 4096, 128 * KIB, true},
	{IO_WRITE, 0, 512, 256 * KIB, false}, {IO_WRITE, IO_FUA, 0, 128 * KIB, true},
	{IO_ZERO, 0, 512, 512, false},
};

static void
drop_pages(void)
{
	disk.image->sweeper = sweeper_new(disk.image->backing.fd, 0, UINT64_MAX);
	ck_assert_ptr_nonnull(disk.image->sweeper);
	atomic_store(&disk.image->dontcache, true);
}

START_TEST(whole_pages_are_moved_with_rwf_dontcache)
{
	struct fake_event *event;

	open_with(&(struct fake_facts){.file_size = 2 * MIB});
	drop_pages();
	ck_assert_int_eq(test_io_execute(disk.ctx, drops[_i].op, drops[_i].flags, drops[_i].offset,
					 drops[_i].length, memory),
			 0);
	event = &disk.fake.events[0];
	ck_assert(event->op == CHUNK_ALLOCATE || event->dontcache == drops[_i].dontcache);
	/* A sync of its own, and not of the write, tells what was lost. */
	ck_assert(!event->dsync);
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_SYNC), drops[_i].flags & IO_FUA ? 1 : 0);
	close_disk();
}
END_TEST

START_TEST(direct_and_kept_transfers_have_no_rwf_dontcache)
{
	open_with(&(struct fake_facts){.align = 512});
	drop_pages();
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_READ, 0, 0, 128 * KIB, memory), 0);
	ck_assert(!disk.fake.events[0].dontcache);
	close_disk();
	open_with(&(struct fake_facts){.align = 0});
	ck_assert_int_eq(test_io_execute(disk.ctx, IO_READ, 0, 0, 128 * KIB, memory), 0);
	ck_assert(!disk.fake.events[0].dontcache);
	close_disk();
}
END_TEST

/* A file system may take the flag for reads only. */
START_TEST(refused_rwf_dontcache_is_left_out_from_then_on)
{
	open_with(&(struct fake_facts){.align = 0});
	drop_pages();
	fake_fault(&disk.fake, CHUNK_WRITE, 0, 1, -EOPNOTSUPP);
	buffer_fill(memory, 128 * KIB, 5);
	memcpy(fake_image_at(&disk, 0), memory, 128 * KIB);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(test_io_execute(disk.ctx, IO_WRITE, 0, 0, 128 * KIB, memory), 0);
	ck_assert_uint_eq(disk.fake.event_count, 3);
	ck_assert(disk.fake.events[0].dontcache && !disk.fake.events[1].dontcache &&
		  !disk.fake.events[2].dontcache);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_ERROR), 0);
	fake_image_compare(&disk);
	close_disk();
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "page-cache=drop"},
		{.test = whole_pages_are_moved_with_rwf_dontcache,
		 .last = sizeof(drops) / sizeof(drops[0])},
		{.test = direct_and_kept_transfers_have_no_rwf_dontcache},
		{.test = refused_rwf_dontcache_is_left_out_from_then_on},
		{0},
	};

	return suite_run("io_dontcache", cases);
}
