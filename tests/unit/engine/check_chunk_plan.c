/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How an io is cut into chunks; and a model: random operations on random images, byte for byte.
 */
#include "engine/io/chunk_plan.h"

#include "tests/lib/suite.h"
#include "tests/unit/fake_image.h"
#include "tests/unit/log_capture.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
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

struct step {
	enum chunk_op op;
	uint64_t offset, length; /* of the chunk, in the file */
	uint64_t bytes;          /* of the io */
	bool bounced;
};

/* Plans all chunks of an io and compares them with the steps; the last step has bytes 0. */
static void
assert_plan(struct io *io, const struct step *steps)
{
	struct chunk *planned = &disk.ctx->chunks[0];

	io->ctx = disk.ctx;
	for (unsigned int i = 0; steps[i].bytes; i++) {
		struct chunk chunk;

		ck_assert_uint_lt(io->issued, io->length);
		ck_assert(plan_chunk(disk.image, io, planned));
		chunk = *planned;
		ck_assert_msg(
			chunk.op == steps[i].op && chunk.offset == steps[i].offset &&
				chunk.length == steps[i].length && chunk.bytes == steps[i].bytes &&
				chunk.bounced == steps[i].bounced,
			"chunk %u: op %d, offset %llu, length %llu, %llu bytes, %s", i, chunk.op,
			(unsigned long long)chunk.offset, (unsigned long long)chunk.length,
			(unsigned long long)chunk.bytes, chunk.bounced ? "bounced" : "straight");
		ck_assert_uint_eq(chunk.start + chunk.bytes, io->offset + io->issued);
		ck_assert_ptr_eq(chunk.io, io);
		ck_assert_ptr_eq(chunk.buffer, chunk.bounced ? disk.ctx->arena : chunk.payload);
	}
	ck_assert_uint_eq(io->issued, io->length);
}

START_TEST(aligned_direct_request_goes_straight_in_chunks)
{
	struct io io = {.op = IO_READ, .offset = 512, .length = 300 * KIB, .buffer = memory};
	const struct step steps[] = {
		{CHUNK_READ, 4096 + 512, CHUNK_SIZE, CHUNK_SIZE, false},
		{CHUNK_READ, 4096 + 512 + CHUNK_SIZE, CHUNK_SIZE, CHUNK_SIZE, false},
		{CHUNK_READ, 4096 + 512 + 2 * CHUNK_SIZE, 44 * KIB, 44 * KIB, false},
		{0},
	};

	open_with(&(struct fake_facts){.offset = 4096, .align = 512});
	io.buffer = memory;
	assert_plan(&io, steps);
	close_disk();
}
END_TEST

START_TEST(serial_backend_gets_a_direct_request_whole)
{
	struct io io = {.op = IO_WRITE, .offset = 512, .length = 900 * KIB};

	open_with(&(struct fake_facts){.align = 512});
	disk.fake.backend.serial = true;
	io.buffer = memory;
	assert_plan(&io,
		    (const struct step[]){{CHUNK_WRITE, 512, 900 * KIB, 900 * KIB, false}, {0}});
	close_disk();
}
END_TEST

START_TEST(direct_request_leaves_the_last_page_of_an_odd_file_to_the_page_cache)
{
	struct io io = {.op = IO_WRITE, .offset = MIB - 16 * KIB, .length = 16 * KIB + 100};

	open_with(&(struct fake_facts){.align = 512, .file_size = MIB + 100});
	io.buffer = memory;
	assert_plan(&io,
		    (const struct step[]){{CHUNK_WRITE, MIB - 16 * KIB, 16 * KIB, 16 * KIB, false},
					  {CHUNK_WRITE, MIB, 100, 100, false},
					  {0}});
	ck_assert(!disk.ctx->chunks[0].direct);
	io = (struct io){.op = IO_READ, .offset = MIB - 100, .length = 200, .buffer = memory};
	assert_plan(&io, (const struct step[]){{CHUNK_READ, MIB - 512, 512, 100, true},
					       {CHUNK_READ, MIB, 100, 100, false},
					       {0}});
	close_disk();
}
END_TEST

START_TEST(buffered_request_of_any_alignment_goes_straight_and_whole)
{
	struct io io = {.op = IO_WRITE, .offset = 3, .length = 900 * KIB + 1};

	open_with(&(struct fake_facts){.align = 512, .buffered = true});
	io.buffer = memory + 1;
	assert_plan(&io, (const struct step[]){
				 {CHUNK_WRITE, 3, 900 * KIB + 1, 900 * KIB + 1, false}, {0}});
	close_disk();
}
END_TEST

START_TEST(unaligned_direct_read_is_rounded_to_blocks_in_the_bounce_buffer)
{
	struct io io = {.op = IO_READ, .offset = 700, .length = 200 * KIB};
	const struct step steps[] = {
		{CHUNK_READ, 512, CHUNK_SIZE, CHUNK_SIZE - 188, true},
		{CHUNK_READ, 512 + CHUNK_SIZE, 72 * KIB + 512, 72 * KIB + 188, true},
		{0},
	};

	open_with(&(struct fake_facts){.align = 512});
	io.buffer = memory;
	assert_plan(&io, steps);
	close_disk();
}
END_TEST

START_TEST(aligned_middle_of_a_read_goes_straight)
{
	struct io io = {.op = IO_READ, .offset = 700, .length = 200 * KIB};
	const struct step steps[] = {
		{CHUNK_READ, 512, CHUNK_SIZE, CHUNK_SIZE - 188, true},
		{CHUNK_READ, 512 + CHUNK_SIZE, 72 * KIB, 72 * KIB, false},
		{CHUNK_READ, 512 + 200 * KIB, 512, 188, true},
		{0},
	};

	open_with(&(struct fake_facts){.align = 512});
	io.buffer = memory + 188; /* the memory is aligned where the disk is */
	assert_plan(&io, steps);
	close_disk();
}
END_TEST

START_TEST(memory_alignment_of_the_device_decides_not_the_page)
{
	struct io io = {.op = IO_READ, .length = 4096};

	open_with(&(struct fake_facts){.align = 512, .memory_align = 4});
	io.buffer = memory + 4;
	assert_plan(&io, (const struct step[]){{CHUNK_READ, 0, 4096, 4096, false}, {0}});
	io.issued = 0;
	io.buffer = memory + 2;
	assert_plan(&io, (const struct step[]){{CHUNK_READ, 0, 4096, 4096, true}, {0}});
	close_disk();
}
END_TEST

START_TEST(unaligned_direct_write_reads_its_edge_blocks_and_no_more)
{
	struct io io = {.op = IO_WRITE, .offset = 500, .length = 12 + 1024 + 5};

	open_with(&(struct fake_facts){.align = 512});
	io.buffer = memory;
	assert_plan(&io, (const struct step[]){{CHUNK_READ, 0, 512, 12, true},
					       {CHUNK_WRITE, 512, 1024, 1024, true},
					       {CHUNK_READ, 1536, 512, 5, true},
					       {0}});
	ck_assert_uint_eq(counter_read(&disk.ctx->counters, COUNTER_READ_MODIFY_WRITES), 2);
	ck_assert_uint_eq(counter_read(&disk.ctx->counters, COUNTER_BOUNCED), 3);
	close_disk();
}
END_TEST

START_TEST(request_beyond_what_a_system_call_moves_is_cut)
{
	const uint64_t gib = UINT64_C(1) << 30;
	struct io io = {.op = IO_WRITE, .length = 3 * gib + 7};

	open_with(&(struct fake_facts){.file_size = 4096, .size = 4 * gib});
	io.buffer = memory;
	assert_plan(&io, (const struct step[]){{CHUNK_WRITE, 0, gib, gib, false},
					       {CHUNK_WRITE, gib, gib, gib, false},
					       {CHUNK_WRITE, 2 * gib, gib, gib, false},
					       {CHUNK_WRITE, 3 * gib, 7, 7, false},
					       {0}});
	close_disk();
}
END_TEST

/* ---- What range a change holds */

static void
assert_range(uint64_t offset, uint64_t length, uint64_t start, uint64_t end)
{
	struct range range;

	io_range(disk.image, &(struct io){.op = IO_WRITE, .offset = offset, .length = length},
		 &range);
	ck_assert_uint_eq(range.start, start);
	ck_assert_uint_eq(range.end, end);
}

/* A buffered write and a direct one must hold the same range, because direct I/O can be switched on
 * while the write is in flight. */
START_TEST(range_of_a_write_is_rounded_to_blocks_with_direct_io_on_and_off)
{
	open_with(&(struct fake_facts){.align = 4096});
	for (int direct = 0; direct < 2; direct++) {
		atomic_store(&disk.image->direct, direct);
		assert_range(0, 1, 0, 4096);
		assert_range(4095, 2, 0, 8192);
		assert_range(4096, 4096, 4096, 8192);
	}
	close_disk();
	open_with(&(struct fake_facts){.align = 0});
	assert_range(4095, 2, 4095, 4097);
	close_disk();
	open_with(&(struct fake_facts){.block_size = 512});
	assert_range(511, 2, 0, 1024);
	close_disk();
}
END_TEST

START_TEST(range_of_a_write_counts_from_the_start_of_the_file)
{
	open_with(&(struct fake_facts){.align = 512, .offset = 4096});
	assert_range(511, 2, 4096, 4096 + 1024);
	close_disk();
	open_with(&(struct fake_facts){.align = 512, .buffered = true, .offset = 700});
	assert_range(0, 1, 512, 1024);
	assert_range(323, 2, 512, 1536);
	close_disk();
}
END_TEST

/* ---- Random operations against the model */

static uint64_t random_state;

static uint32_t
random_below(uint32_t limit)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(random_state >> 33) % limit;
}

/* One of several operations in flight; each has its own part of the image. */
struct model_op {
	struct test_io op;
	unsigned char *buffer;
	uint64_t offset, length;
};

static void
model_submit(struct model_op *op, uint64_t from, uint32_t room, unsigned int seed)
{
	static const enum io_op kinds[] = {IO_READ, IO_READ, IO_WRITE, IO_WRITE, IO_WRITE, IO_ZERO};
	enum io_op kind = kinds[random_below(6)];
	unsigned int flags = random_below(4) ? 0 : IO_FUA;
	unsigned int step = random_below(2) ? 1 : 512;

	op->offset = from + random_below(room / step) * step;
	op->length = random_below((uint32_t)(from + room - op->offset) / step + 1) * step;
	op->buffer = buffer_new(op->length, random_below(3));
	if (kind == IO_WRITE) {
		buffer_fill(op->buffer, op->length, seed);
		memcpy(fake_image_at(&disk, op->offset), op->buffer, op->length);
	} else if (kind == IO_ZERO) {
		memset(fake_image_at(&disk, op->offset), 0, op->length);
		flags |= random_below(2) ? IO_MAY_UNMAP : 0;
	}
	test_io_submit(disk.ctx, &op->op, kind, flags, op->offset, op->length, op->buffer);
}

static void
model_finish(struct model_op *op)
{
	ck_assert_int_eq(test_io_finish(disk.ctx, &op->op), 0);
	if (op->op.io.op == IO_READ && op->length)
		ck_assert_mem_eq(op->buffer, fake_image_at(&disk, op->offset), op->length);
	buffer_free(op->buffer);
}

static void
run_model(const struct fake_facts *facts, unsigned int number)
{
	enum {
		TOGETHER = 5
	};
	struct model_op ops[TOGETHER];
	uint32_t room, rest;

	open_with(facts);
	random_state = number;
	disk.fake.order = (enum fake_order)(number % 3);
	disk.fake.shorten = number % 2 ? 3 : 0;
	disk.fake.backend.serial = number % 5 == 4;
	room = (uint32_t)(image_size(disk.image) / TOGETHER);
	rest = (uint32_t)(image_size(disk.image) % TOGETHER);
	for (unsigned int round = 0; round < 8; round++) {
		if (random_below(2))
			fake_fault(&disk.fake, CHUNK_ALLOCATE, random_below(3), 1, -EINTR);
		for (unsigned int i = 0; i < TOGETHER; i++)
			model_submit(&ops[i], (uint64_t)i * room,
				     room + (i == TOGETHER - 1 ? rest : 0), 10 * round + i);
		for (unsigned int i = 0; i < TOGETHER; i++)
			model_finish(&ops[i]);
		fake_image_compare(&disk);
		fake_forget(&disk.fake);
	}
	close_disk();
}

static const struct fake_facts models[] = {
	{.align = 0},
	{.align = 512},
	{.align = 4096},
	{.align = 512, .memory_align = 4, .depth = 1},
	{.align = 4096, .depth = 2, .offset = 8192, .size = 700 * KIB},
	{.align = 512, .buffered = true, .offset = 1536},
	{.offset = 77, .size = 900 * KIB},
	{.align = 512, .block_size = 512},
	{.align = 4096, .block_size = 4096, .offset = 4096},
	{.align = 4096, .block_size = 4096, .buffered = true},
	{.block_size = 4096, .offset = 512},
	/* Direct I/O up to the last page. */
	{.align = 512, .file_size = MIB + 700},
	{.align = 4096, .file_size = MIB - 1, .offset = 4096, .depth = 2},
	{.align = 512, .size = 700 * KIB + 13},
	{.align = 512, .file_size = 3001},
};

START_TEST(random_operations_leave_what_the_model_says)
{
	for (unsigned int i = 0; i < 3; i++)
		run_model(&models[_i], 100 * i + (unsigned int)_i);
}
END_TEST

START_TEST(random_operations_without_fallocate_leave_what_the_model_says)
{
	struct fake_facts facts = models[_i];

	facts.no_discard = true;
	open_with(&facts);
	/* Only writing works; the first zeroing discovers that. */
	fake_fault(&disk.fake, CHUNK_ALLOCATE, 0, 1, -EOPNOTSUPP);
	random_state = 7;
	for (unsigned int round = 0; round < 30; round++) {
		uint32_t size = (uint32_t)image_size(disk.image);
		uint64_t offset = random_below(size);
		uint64_t length = random_below((uint32_t)(size - offset)) + 1;

		memset(fake_image_at(&disk, offset), 0, length);
		ck_assert_int_eq(test_io_execute(disk.ctx, IO_ZERO, 0, offset, length, NULL), 0);
		fake_image_compare(&disk);
	}
	ck_assert_uint_eq(fake_count(&disk.fake, CHUNK_ALLOCATE), 1);
	close_disk();
}
END_TEST

int
main(void)
{
	int count = sizeof(models) / sizeof(models[0]);
	const struct suite_row cases[] = {
		{.name = "plan"},
		{.test = aligned_direct_request_goes_straight_in_chunks},
		{.test = serial_backend_gets_a_direct_request_whole},
		{.test = buffered_request_of_any_alignment_goes_straight_and_whole},
		{.test = direct_request_leaves_the_last_page_of_an_odd_file_to_the_page_cache},
		{.test = unaligned_direct_read_is_rounded_to_blocks_in_the_bounce_buffer},
		{.test = aligned_middle_of_a_read_goes_straight},
		{.test = memory_alignment_of_the_device_decides_not_the_page},
		{.test = unaligned_direct_write_reads_its_edge_blocks_and_no_more},
		{.test = request_beyond_what_a_system_call_moves_is_cut},
		{.name = "range"},
		{.test = range_of_a_write_is_rounded_to_blocks_with_direct_io_on_and_off},
		{.test = range_of_a_write_counts_from_the_start_of_the_file},
		{.name = "model"},
		{.test = random_operations_leave_what_the_model_says, .last = count},
		{.test = random_operations_without_fallocate_leave_what_the_model_says,
		 .last = count},
		{0},
	};

	return suite_run("chunk_plan", cases);
}
