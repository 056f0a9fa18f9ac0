/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies, byte for byte, in every form.
 */
#include "nbd/reply.h"

#include "nbd/wire.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define COOKIE "\x01\x02\x03\x04\x05\x06\x07\x08"
#define OFFSET "\x00\x00\x00\x01\x00\x00\x10\x00"

static struct nbd_session session;
static struct nbd_request request;
static uint8_t out[4096];

static void
begin(void)
{
	session = (struct nbd_session){
		.form = NBD_FORM_STRUCTURED, .min_block = 1, .size = UINT64_MAX};
	request = (struct nbd_request){
		.cookie = UINT64_C(0x0102030405060708),
		.offset = UINT64_C(0x100001000),
		.length = 0x2000,
		.type = NBD_CMD_READ,
	};
	memset(out, 0xaa, sizeof(out));
}

/* The reply has these bytes, and nothing is written after it. */
#define assert_reply(length, literal)                                                              \
	do {                                                                                       \
		ck_assert_uint_eq(length, sizeof(literal) - 1);                                    \
		ck_assert_mem_eq(out, literal, sizeof(literal) - 1);                               \
		ck_assert_uint_eq(out[sizeof(literal) - 1], 0xaa);                                 \
	} while (0)

START_TEST(success_is_a_simple_reply_where_it_may_be)
{
	request.type = NBD_CMD_WRITE;
	session.form = NBD_FORM_SIMPLE;
	assert_reply(nbd_reply_done(&session, &request, out), "\x67\x44\x66\x98\0\0\0\0" COOKIE);
	session.form = NBD_FORM_STRUCTURED;
	assert_reply(nbd_reply_done(&session, &request, out), "\x67\x44\x66\x98\0\0\0\0" COOKIE);
	session.form = NBD_FORM_EXTENDED;
	assert_reply(nbd_reply_done(&session, &request, out),
		     "\x6e\x8a\x27\x8c\0\1\0\0" COOKIE OFFSET "\0\0\0\0\0\0\0\0");
}
END_TEST

START_TEST(read_ends_with_a_chunk_where_there_are_chunks)
{
	session.form = NBD_FORM_SIMPLE;
	assert_reply(nbd_reply_done(&session, &request, out), "\x67\x44\x66\x98\0\0\0\0" COOKIE);
	session.form = NBD_FORM_STRUCTURED;
	assert_reply(nbd_reply_done(&session, &request, out),
		     "\x66\x8e\x33\xef\0\1\0\0" COOKIE "\0\0\0\0");
	session.form = NBD_FORM_EXTENDED;
	assert_reply(nbd_reply_done(&session, &request, out),
		     "\x6e\x8a\x27\x8c\0\1\0\0" COOKIE OFFSET "\0\0\0\0\0\0\0\0");
}
END_TEST

START_TEST(data_follows_its_header)
{
	session.form = NBD_FORM_SIMPLE;
	assert_reply(nbd_reply_data(&session, &request, request.offset, 0x2000, true, out),
		     "\x67\x44\x66\x98\0\0\0\0" COOKIE);
	session.form = NBD_FORM_STRUCTURED;
	assert_reply(nbd_reply_data(&session, &request, request.offset, 0x2000, true, out),
		     "\x66\x8e\x33\xef\0\1\0\1" COOKIE "\0\0\x20\x08" OFFSET);
	session.form = NBD_FORM_EXTENDED;
	assert_reply(nbd_reply_data(&session, &request, request.offset, 0x2000, true, out),
		     "\x6e\x8a\x27\x8c\0\1\0\1" COOKIE OFFSET "\0\0\0\0\0\0\x20\x08" OFFSET);
}
END_TEST

START_TEST(part_of_the_data_tells_its_own_offset)
{
	assert_reply(nbd_reply_data(&session, &request, request.offset + 1, 0x1fff, false, out),
		     "\x66\x8e\x33\xef\0\0\0\1" COOKIE "\0\0\x20\x07"
		     "\0\0\0\1\0\0\x10\1");
	session.form = NBD_FORM_EXTENDED;
	assert_reply(nbd_reply_data(&session, &request, request.offset + 1, 0x1fff, false, out),
		     "\x6e\x8a\x27\x8c\0\0\0\1" COOKIE OFFSET "\0\0\0\0\0\0\x20\x07"
		     "\0\0\0\1\0\0\x10\1");
}
END_TEST

START_TEST(hole_is_told_in_a_chunk)
{
	assert_reply(nbd_reply_hole(&session, &request, request.offset, 0x2000, true, out),
		     "\x66\x8e\x33\xef\0\1\0\2" COOKIE "\0\0\0\x0c" OFFSET "\0\0\x20\0");
	session.form = NBD_FORM_EXTENDED;
	assert_reply(nbd_reply_hole(&session, &request, request.offset + 0x1fff, 1, false, out),
		     "\x6e\x8a\x27\x8c\0\0\0\2" COOKIE OFFSET "\0\0\0\0\0\0\0\x0c"
		     "\0\0\0\1\0\0\x2f\xff"
		     "\0\0\0\1");
}
END_TEST

START_TEST(error_carries_its_message_in_a_chunk)
{
	session.form = NBD_FORM_SIMPLE;
	assert_reply(nbd_reply_error(&session, &request, NBD_EIO, "bad", out),
		     "\x67\x44\x66\x98\0\0\0\5" COOKIE);
	session.form = NBD_FORM_STRUCTURED;
	assert_reply(nbd_reply_error(&session, &request, NBD_ESHUTDOWN, "bad", out),
		     "\x66\x8e\x33\xef\0\1\x80\1" COOKIE "\0\0\0\x09"
		     "\0\0\0\x6c"
		     "\0\3bad");
	session.form = NBD_FORM_EXTENDED;
	assert_reply(nbd_reply_error(&session, &request, NBD_EIO, "bad", out),
		     "\x6e\x8a\x27\x8c\0\1\x80\1" COOKIE OFFSET "\0\0\0\0\0\0\0\x09"
		     "\0\0\0\5"
		     "\0\3bad");
}
END_TEST

START_TEST(error_needs_no_message)
{
	assert_reply(nbd_reply_error(&session, &request, NBD_EIO, NULL, out),
		     "\x66\x8e\x33\xef\0\1\x80\1" COOKIE "\0\0\0\6"
		     "\0\0\0\5"
		     "\0\0");
}
END_TEST

START_TEST(error_of_a_write_is_a_chunk_too)
{
	request.type = NBD_CMD_WRITE;
	ck_assert_uint_eq(nbd_reply_error(&session, &request, NBD_ENOSPC, "full", out), 20 + 6 + 4);
	ck_assert_uint_eq(wire_load32(out), NBD_STRUCTURED_REPLY_MAGIC);
}
END_TEST

START_TEST(error_can_tell_where)
{
	session.form = NBD_FORM_SIMPLE;
	assert_reply(nbd_reply_error_at(&session, &request, NBD_EIO, "bad", request.offset, out),
		     "\x67\x44\x66\x98\0\0\0\5" COOKIE);
	session.form = NBD_FORM_STRUCTURED;
	assert_reply(nbd_reply_error_at(&session, &request, NBD_EIO, "bad", request.offset + 0x1fff,
					out),
		     "\x66\x8e\x33\xef\0\1\x80\2" COOKIE "\0\0\0\x11"
		     "\0\0\0\5"
		     "\0\3bad"
		     "\0\0\0\1\0\0\x2f\xff");
	session.form = NBD_FORM_EXTENDED;
	assert_reply(nbd_reply_error_at(&session, &request, NBD_EIO, NULL, request.offset, out),
		     "\x6e\x8a\x27\x8c\0\1\x80\2" COOKIE OFFSET "\0\0\0\0\0\0\0\x0e"
		     "\0\0\0\5"
		     "\0\0" OFFSET);
}
END_TEST

START_TEST(long_messages_are_cut_between_characters)
{
	char message[NBD_MESSAGE_MAX + 100];

	memset(message, 'x', sizeof(message));
	message[sizeof(message) - 1] = '\0';
	session.form = NBD_FORM_EXTENDED;
	ck_assert_uint_eq(
		nbd_reply_error_at(&session, &request, NBD_EIO, message, request.offset, out),
		NBD_REPLY_ERROR_MAX);
	ck_assert_uint_eq(wire_load16(out + 32 + 4), NBD_MESSAGE_MAX);

	/* The limit cuts a character of three bytes. */
	memcpy(message + NBD_MESSAGE_MAX - 2, "\xe2\x82\xac", 3);
	ck_assert_uint_eq(nbd_reply_error(&session, &request, NBD_EIO, message, out),
			  32 + 6 + NBD_MESSAGE_MAX - 2);
}
END_TEST

START_TEST(results_of_the_engine_become_errors)
{
	static const struct {
		int result;
		enum nbd_error error;
	} map[] = {{0, NBD_SUCCESS},
		   {-EPERM, NBD_EPERM},
		   {-EACCES, NBD_EPERM},
		   {-EROFS, NBD_EPERM},
		   {-EIO, NBD_EIO},
		   {-ENOMEM, NBD_ENOMEM},
		   {-EINVAL, NBD_EINVAL},
		   {-ENOSPC, NBD_ENOSPC},
		   {-EDQUOT, NBD_ENOSPC},
		   {-EFBIG, NBD_ENOSPC},
		   {-ESHUTDOWN, NBD_ESHUTDOWN},
		   {-EBADF, NBD_EIO},
		   {-EREMOTEIO, NBD_EIO},
		   {-ETIMEDOUT, NBD_EIO},
		   {-100000, NBD_EIO}};

	for (size_t i = 0; i < sizeof(map) / sizeof(map[0]); i++)
		ck_assert_int_eq(nbd_reply_errno(&request, map[i].result), map[i].error);
}
END_TEST

START_TEST(not_supported_is_told_for_fast_zeroes_only)
{
	request.type = NBD_CMD_WRITE_ZEROES;
	ck_assert_int_eq(nbd_reply_errno(&request, -EOPNOTSUPP), NBD_EINVAL);
	request.flags = NBD_CMD_FLAG_NO_HOLE | NBD_CMD_FLAG_FAST_ZERO;
	ck_assert_int_eq(nbd_reply_errno(&request, -EOPNOTSUPP), NBD_ENOTSUP);
}
END_TEST

START_TEST(overflow_is_told_for_reads_only)
{
	ck_assert_int_eq(nbd_reply_errno(&request, -EOVERFLOW), NBD_EOVERFLOW);
	request.type = NBD_CMD_WRITE;
	ck_assert_int_eq(nbd_reply_errno(&request, -EOVERFLOW), NBD_EINVAL);
}
END_TEST

/* ---- Lists of extents */

static struct nbd_status status;

static void
status_begin(uint64_t offset, uint64_t length, uint32_t min_block)
{
	request.type = NBD_CMD_BLOCK_STATUS;
	request.offset = offset;
	request.length = length;
	session.min_block = min_block;
	nbd_status_init(&status, &session, &request, out, sizeof(out));
}

START_TEST(extents_are_listed)
{
	status_begin(request.offset, 0x6000, 4096);
	ck_assert(nbd_status_add(&status, 0x1000, 0));
	ck_assert(nbd_status_add(&status, 0x2000, NBD_STATE_HOLE | NBD_STATE_ZERO));
	ck_assert(!nbd_status_add(&status, 0x3000, NBD_STATE_ZERO));
	assert_reply(nbd_status_finish(&status), "\x66\x8e\x33\xef\0\1\0\5" COOKIE "\0\0\0\x1c"
						 "\0\0\0\1"
						 "\0\0\x10\0"
						 "\0\0\0\0"
						 "\0\0\x20\0"
						 "\0\0\0\3"
						 "\0\0\x30\0"
						 "\0\0\0\2");
}
END_TEST

START_TEST(extended_extents_have_64_bits)
{
	session.form = NBD_FORM_EXTENDED;
	status_begin(request.offset, UINT64_C(0x100000000000), 4096);
	ck_assert(nbd_status_add(&status, UINT64_C(0x20000000000), 0));
	ck_assert(!nbd_status_add(&status, UINT64_MAX, 3));
	assert_reply(nbd_status_finish(&status),
		     "\x6e\x8a\x27\x8c\0\1\0\6" COOKIE OFFSET "\0\0\0\0\0\0\0\x28"
		     "\0\0\0\1"
		     "\0\0\0\2"
		     "\0\0\2\0\0\0\0\0"
		     "\0\0\0\0\0\0\0\0"
		     "\0\0\x0e\0\0\0\0\0"
		     "\0\0\0\0\0\0\0\3");
}
END_TEST

/* The list has one extent, with this length and these flags. */
static void
assert_one_extent(uint32_t length, uint32_t flags)
{
	ck_assert_uint_eq(nbd_status_finish(&status), 20 + 4 + 8);
	ck_assert_uint_eq(wire_load32(out + 16), 4 + 8);
	ck_assert_uint_eq(wire_load32(out + 24), length);
	ck_assert_uint_eq(wire_load32(out + 28), flags);
}

START_TEST(equal_extents_are_joined)
{
	status_begin(0, 0x10000, 512);
	ck_assert(nbd_status_add(&status, 0x1000, 2));
	ck_assert(nbd_status_add(&status, 0x1000, 2));
	ck_assert(nbd_status_add(&status, 0, 1));
	ck_assert(nbd_status_add(&status, 0x1000, 2));
	assert_one_extent(0x3000, 2);
}
END_TEST

START_TEST(extents_end_with_the_request)
{
	status_begin(0, 0x10000, 512);
	ck_assert(!nbd_status_add(&status, UINT64_MAX, 3));
	ck_assert(!nbd_status_add(&status, 0x1000, 0));
	assert_one_extent(0x10000, 3);

	status_begin(5, UINT32_MAX, 1);
	ck_assert(nbd_status_add(&status, UINT32_MAX - 1, 3));
	ck_assert(!nbd_status_add(&status, UINT64_MAX, 3));
	assert_one_extent(UINT32_MAX, 3);
}
END_TEST

START_TEST(empty_list_is_data)
{
	status_begin(0, 0x10000, 512);
	assert_one_extent(0x10000, 0);

	status_begin(0, 0x10000, 512);
	ck_assert(nbd_status_add(&status, 0, 3));
	assert_one_extent(0x10000, 0);
}
END_TEST

START_TEST(one_extent_is_enough_where_one_was_asked_for)
{
	request.flags = NBD_CMD_FLAG_REQ_ONE;
	status_begin(0, 0x10000, 512);
	ck_assert(nbd_status_add(&status, 0x1000, 3));
	ck_assert(nbd_status_add(&status, 0x1000, 3));
	ck_assert(!nbd_status_add(&status, 0x1000, 0));
	ck_assert(!nbd_status_add(&status, 0x1000, 3));
	assert_one_extent(0x2000, 3);
}
END_TEST

START_TEST(full_buffer_ends_the_list)
{
	size_t head = _i ? 32 + 8 : 20 + 4, entry = _i ? 16 : 8;

	session.form = _i ? NBD_FORM_EXTENDED : NBD_FORM_STRUCTURED;
	status_begin(0, 0x100000, 512);
	/* One byte too small for a sixth extent. */
	nbd_status_init(&status, &session, &request, out, head + 6 * entry - 1);
	for (uint32_t i = 0; i < 5; i++)
		ck_assert(nbd_status_add(&status, 512, i & 1));
	ck_assert(!nbd_status_add(&status, 512, 1));
	ck_assert(!nbd_status_add(&status, 512, 0));
	ck_assert_uint_eq(nbd_status_finish(&status), head + 5 * entry);
	ck_assert_uint_eq(out[head + 6 * entry - 1], 0xaa);
}
END_TEST

START_TEST(list_of_a_bitmap_has_its_id_and_may_not_be_the_last)
{
	status_begin(0, 0x3000, 4096);
	status.id = 9;
	status.last = false;
	ck_assert(nbd_status_add(&status, 0x1000, NBD_STATE_DIRTY));
	ck_assert(!nbd_status_add(&status, 0x2000, 0));
	assert_reply(nbd_status_finish(&status), "\x66\x8e\x33\xef\0\0\0\5" COOKIE "\0\0\0\x14"
						 "\0\0\0\x09"
						 "\0\0\x10\0"
						 "\0\0\0\1"
						 "\0\0\x20\0"
						 "\0\0\0\0");
}
END_TEST

/* Never too little: the opposite of a hole's rule. */
START_TEST(block_that_is_dirty_in_part_is_dirty)
{
	status_begin(0, 0x2000, 4096);
	status.id = 9;
	ck_assert(nbd_status_add(&status, 0x200, NBD_STATE_DIRTY));
	ck_assert(!nbd_status_add(&status, 0x1e00, 0));
	assert_reply(nbd_status_finish(&status), "\x66\x8e\x33\xef\0\1\0\5" COOKIE "\0\0\0\x14"
						 "\0\0\0\x09"
						 "\0\0\x10\0\0\0\0\1"
						 "\0\0\x10\0\0\0\0\0");
}
END_TEST

START_TEST(extents_keep_to_whole_blocks)
{
	/* A hole of 512 bytes does not make the block a hole. */
	status_begin(0, 0x4000, 4096);
	ck_assert(nbd_status_add(&status, 0x1200, 3));
	ck_assert(nbd_status_add(&status, 0x1000, 0));
	ck_assert(!nbd_status_add(&status, 0x1e00, 3));
	ck_assert_uint_eq(nbd_status_finish(&status), 20 + 4 + 24);
	ck_assert_mem_eq(out + 24,
			 "\0\0\x10\0\0\0\0\3"
			 "\0\0\x20\0\0\0\0\0"
			 "\0\0\x10\0\0\0\0\3",
			 24);
}
END_TEST

START_TEST(shared_block_has_the_flags_common_to_all)
{
	/* Zeroes, a hole, zeroes: all of it reads as zeroes. */
	status_begin(0, 0x1000, 4096);
	ck_assert(nbd_status_add(&status, 0x200, 2));
	ck_assert(nbd_status_add(&status, 0x200, 3));
	ck_assert(!nbd_status_add(&status, 0xc00, 2));
	assert_one_extent(0x1000, 2);
}
END_TEST

START_TEST(shared_block_that_does_not_fit_ends_the_list)
{
	request.flags = NBD_CMD_FLAG_REQ_ONE;
	status_begin(0, 0x4000, 4096);
	ck_assert(nbd_status_add(&status, 0x1200, 3));
	ck_assert(!nbd_status_add(&status, 0x1000, 0));
	ck_assert(!nbd_status_add(&status, 0x1000, 3));
	assert_one_extent(0x1000, 3);
}
END_TEST

START_TEST(unaligned_request_has_unaligned_ends)
{
	status_begin(100, 0x2000, 4096);
	ck_assert(nbd_status_add(&status, 0x1000, 3));
	ck_assert(nbd_status_add(&status, 0xf00, 0));
	ck_assert(!nbd_status_add(&status, 0x100, 3));
	ck_assert_uint_eq(nbd_status_finish(&status), 20 + 4 + 24);
	ck_assert_mem_eq(out + 24,
			 "\0\0\x0f\x9c\0\0\0\3"
			 "\0\0\x10\0\0\0\0\0"
			 "\0\0\0\x64\0\0\0\3",
			 24);
}
END_TEST

START_TEST(session_without_a_block_size_has_bytes)
{
	status_begin(0, 3, 0);
	ck_assert(nbd_status_add(&status, 1, 0));
	ck_assert(nbd_status_add(&status, 1, 1));
	ck_assert(!nbd_status_add(&status, 1, 0));
	ck_assert_uint_eq(nbd_status_finish(&status), 20 + 4 + 24);
}
END_TEST

START_TEST(no_more_extents_than_specified)
{
	size_t size = NBD_REPLY_STATUS_MAX(NBD_EXTENTS_MAX + 10);
	uint8_t *bytes = malloc(size);
	uint64_t added = 0;

	ck_assert_ptr_nonnull(bytes);
	status_begin(0, UINT32_MAX, 1);
	nbd_status_init(&status, &session, &request, bytes, size);
	while (nbd_status_add(&status, 1, added & 1))
		added++;
	ck_assert_uint_eq(added, NBD_EXTENTS_MAX);
	ck_assert_uint_eq(nbd_status_finish(&status), 20 + 4 + 8 * (size_t)NBD_EXTENTS_MAX);
	free(bytes);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "reply", .begin = begin},
		{.test = success_is_a_simple_reply_where_it_may_be},
		{.test = read_ends_with_a_chunk_where_there_are_chunks},
		{.test = data_follows_its_header},
		{.test = part_of_the_data_tells_its_own_offset},
		{.test = hole_is_told_in_a_chunk},
		{.test = error_carries_its_message_in_a_chunk},
		{.test = error_needs_no_message},
		{.test = error_of_a_write_is_a_chunk_too},
		{.test = error_can_tell_where},
		{.test = long_messages_are_cut_between_characters},
		{.test = results_of_the_engine_become_errors},
		{.test = not_supported_is_told_for_fast_zeroes_only},
		{.test = overflow_is_told_for_reads_only},
		{.name = "extents", .begin = begin},
		{.test = extents_are_listed},
		{.test = extended_extents_have_64_bits},
		{.test = equal_extents_are_joined},
		{.test = extents_end_with_the_request},
		{.test = empty_list_is_data},
		{.test = one_extent_is_enough_where_one_was_asked_for},
		{.test = full_buffer_ends_the_list, .last = 2},
		{.test = list_of_a_bitmap_has_its_id_and_may_not_be_the_last},
		{.test = block_that_is_dirty_in_part_is_dirty},
		{.test = extents_keep_to_whole_blocks},
		{.test = shared_block_has_the_flags_common_to_all},
		{.test = shared_block_that_does_not_fit_ends_the_list},
		{.test = unaligned_request_has_unaligned_ends},
		{.test = session_without_a_block_size_has_bytes},
		{.test = no_more_extents_than_specified},
		{0},
	};

	return suite_run("nbd_reply", cases);
}
