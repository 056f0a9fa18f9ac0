/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every rule about what a request may ask.
 */
#include "nbd/request.h"

#include "nbd/wire.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SIZE    UINT64_C(0x10000000000) /* 1 TiB */
#define MOST    (1u << 20)              /* longest read or write */
#define ALL     (NBD_FLAG_HAS_FLAGS | NBD_FLAG_SEND_DF | (NBD_EXPORT_FLAGS & ~NBD_FLAG_READ_ONLY))
#define PAYLOAD (session.form == NBD_FORM_EXTENDED ? NBD_CMD_FLAG_PAYLOAD_LEN : 0u)

static struct nbd_session session;
static struct nbd_check check;

static void
begin(void)
{
	session = (struct nbd_session){
		.size = SIZE,
		.min_block = 4096,
		.max_payload = MOST,
		.flags = ALL,
		.form = NBD_FORM_STRUCTURED,
		.allocation = true,
	};
}

static enum nbd_verdict
judge(unsigned int type, unsigned int flags, uint64_t offset, uint64_t length)
{
	struct nbd_request request = {0x0123456789abcdef, offset, length, (uint16_t)flags,
				      (uint16_t)type};

	memset(&check, 0xaa, sizeof(check));
	return nbd_request_check(&session, &request, &check);
}

static void
assert_served(unsigned int type, unsigned int flags, uint64_t offset, uint64_t length)
{
	enum nbd_verdict verdict = judge(type, flags, offset, length);

	ck_assert_msg(verdict == NBD_VERDICT_SERVE, "command %u, flags %#x: %s", type, flags,
		      check.message);
	ck_assert_uint_eq(check.payload, type == NBD_CMD_WRITE ? length : 0);
}

static void
assert_refused(unsigned int type, unsigned int flags, uint64_t offset, uint64_t length,
	       enum nbd_error error)
{
	enum nbd_verdict verdict = judge(type, flags, offset, length);

	ck_assert_msg(verdict == NBD_VERDICT_REFUSE, "command %u, flags %#x: verdict %d", type,
		      flags, verdict);
	ck_assert_msg(check.error == error, "command %u: error %d, not %d (%s)", type, check.error,
		      error, check.message);
	ck_assert_ptr_nonnull(check.message);
	if (session.form != NBD_FORM_EXTENDED)
		ck_assert_uint_eq(check.payload, type == NBD_CMD_WRITE ? length : 0);
	else
		ck_assert_uint_eq(check.payload, flags & NBD_CMD_FLAG_PAYLOAD_LEN ? length : 0);
}

static void
assert_dropped(unsigned int type, unsigned int flags, uint64_t offset, uint64_t length)
{
	ck_assert_int_eq(judge(type, flags, offset, length), NBD_VERDICT_DROP);
	ck_assert_ptr_nonnull(check.message);
}

/* ---- Rules, in all forms: _i is the form */

START_TEST(good_requests_are_served)
{
	session.form = _i;
	assert_served(NBD_CMD_READ, 0, 0, 4096);
	assert_served(NBD_CMD_WRITE, PAYLOAD, 4096, 4096);
	assert_served(NBD_CMD_FLUSH, 0, 0, 0);
	assert_served(NBD_CMD_TRIM, 0, 0, 4096);
	assert_served(NBD_CMD_CACHE, 0, 0, 4096);
	assert_served(NBD_CMD_WRITE_ZEROES, 0, 0, 4096);
	assert_served(NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_NO_HOLE | NBD_CMD_FLAG_FAST_ZERO, 0, 4096);
	assert_served(NBD_CMD_BLOCK_STATUS, 0, 0, 4096);
	assert_served(NBD_CMD_BLOCK_STATUS, NBD_CMD_FLAG_REQ_ONE, 0, 4096);
}
END_TEST

START_TEST(unaligned_requests_are_served)
{
	session.form = _i;
	assert_served(NBD_CMD_READ, 0, 1, 1);
	assert_served(NBD_CMD_WRITE, PAYLOAD, 4095, 2);
	assert_served(NBD_CMD_TRIM, 0, 3, 5);
	assert_served(NBD_CMD_WRITE_ZEROES, 0, SIZE - 1, 1);
	assert_served(NBD_CMD_BLOCK_STATUS, 0, 7, 1);
}
END_TEST

START_TEST(unknown_commands_are_invalid_without_payload)
{
	session.form = _i;
	for (unsigned int type = NBD_CMD_BLOCK_STATUS + 1; type <= UINT16_MAX;
	     type += type < 300 ? 1 : 251)
		assert_refused(type, 0, 0, 4096, NBD_EINVAL);
	assert_refused(UINT16_MAX, 0, 0, 0, NBD_EINVAL);
	/* Longer than any payload, but there is none. */
	assert_refused(8, 0, UINT64_MAX, UINT32_MAX, NBD_EINVAL);
}
END_TEST

START_TEST(flags_of_other_commands_are_invalid)
{
	static const uint16_t allowed[] = {
		[NBD_CMD_READ] = NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_DF,
		[NBD_CMD_WRITE] = NBD_CMD_FLAG_FUA,
		[NBD_CMD_FLUSH] = NBD_CMD_FLAG_FUA,
		[NBD_CMD_TRIM] = NBD_CMD_FLAG_FUA,
		[NBD_CMD_CACHE] = NBD_CMD_FLAG_FUA,
		[NBD_CMD_WRITE_ZEROES] =
			NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_NO_HOLE | NBD_CMD_FLAG_FAST_ZERO,
		[NBD_CMD_BLOCK_STATUS] = NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_REQ_ONE,
	};

	session.form = _i;
	for (unsigned int type = 0; type <= NBD_CMD_BLOCK_STATUS; type++) {
		uint64_t length = type == NBD_CMD_FLUSH ? 0 : 512;
		unsigned int payload = type == NBD_CMD_WRITE ? PAYLOAD : 0;

		if (type == NBD_CMD_DISC)
			continue;
		for (unsigned int bit = 0; bit < 16; bit++) {
			unsigned int flag = 1u << bit;

			if (flag == NBD_CMD_FLAG_PAYLOAD_LEN && session.form == NBD_FORM_EXTENDED)
				continue;
			if (allowed[type] & flag)
				assert_served(type, flag | payload, 0, length);
			else
				assert_refused(type, flag | payload, 0, length, NBD_EINVAL);
		}
	}
}
END_TEST

START_TEST(flags_that_were_not_offered_are_invalid)
{
	session.form = _i;
	session.flags = ALL & ~(NBD_FLAG_SEND_FUA | NBD_FLAG_SEND_DF | NBD_FLAG_SEND_FAST_ZERO);
	assert_refused(NBD_CMD_WRITE, PAYLOAD | NBD_CMD_FLAG_FUA, 0, 512, NBD_EINVAL);
	assert_refused(NBD_CMD_READ, NBD_CMD_FLAG_FUA, 0, 512, NBD_EINVAL);
	assert_refused(NBD_CMD_READ, NBD_CMD_FLAG_DF, 0, 512, NBD_EINVAL);
	assert_refused(NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_FAST_ZERO, 0, 512, NBD_EINVAL);
	assert_served(NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_NO_HOLE, 0, 512);
}
END_TEST

START_TEST(commands_that_were_not_offered_are_invalid)
{
	session.form = _i;
	session.flags = NBD_FLAG_HAS_FLAGS;
	assert_refused(NBD_CMD_FLUSH, 0, 0, 0, NBD_EINVAL);
	assert_refused(NBD_CMD_TRIM, 0, 0, 512, NBD_EINVAL);
	assert_refused(NBD_CMD_CACHE, 0, 0, 512, NBD_EINVAL);
	assert_refused(NBD_CMD_WRITE_ZEROES, 0, 0, 512, NBD_EINVAL);
	assert_served(NBD_CMD_READ, 0, 0, 512);
	assert_served(NBD_CMD_WRITE, PAYLOAD, 0, 512);
}
END_TEST

START_TEST(writing_to_a_read_only_export_is_not_permitted)
{
	session.form = _i;
	session.flags = ALL | NBD_FLAG_READ_ONLY;
	assert_refused(NBD_CMD_WRITE, PAYLOAD, 0, 512, NBD_EPERM);
	assert_refused(NBD_CMD_WRITE, PAYLOAD, SIZE, 512, NBD_EPERM);
	assert_refused(NBD_CMD_WRITE, PAYLOAD, 0, 0, NBD_EPERM);
	assert_refused(NBD_CMD_TRIM, 0, 0, 512, NBD_EPERM);
	assert_refused(NBD_CMD_WRITE_ZEROES, 0, 0, 512, NBD_EPERM);
	assert_refused(NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_NO_HOLE, 0, 512, NBD_EPERM);
	/* Whether the handshake offered the command or not, the error is the same. */
	session.flags =
		NBD_FLAG_HAS_FLAGS | NBD_FLAG_READ_ONLY | NBD_FLAG_SEND_FLUSH | NBD_FLAG_SEND_CACHE;
	assert_refused(NBD_CMD_TRIM, 0, 0, 512, NBD_EPERM);
	assert_refused(NBD_CMD_WRITE_ZEROES, 0, 0, 512, NBD_EPERM);
	assert_served(NBD_CMD_READ, 0, 0, 512);
	assert_served(NBD_CMD_FLUSH, 0, 0, 0);
	assert_served(NBD_CMD_CACHE, 0, 0, 512);
	assert_served(NBD_CMD_BLOCK_STATUS, 0, 0, 512);
}
END_TEST

static void
assert_ends_at(uint64_t size, unsigned int type, unsigned int flags, enum nbd_error error)
{
	session.size = size;
	assert_served(type, flags, size - 512, 512);
	assert_refused(type, flags, size - 512, 513, error);
	assert_refused(type, flags, size - 511, 512, error);
	assert_refused(type, flags, size, 1, error);
	if (size < UINT64_MAX)
		assert_refused(type, flags, UINT64_MAX, 1, error);
	assert_refused(type, flags, UINT64_MAX - 255, 512, error);
	/* Offset and length that add up to 1, in 64 bits. */
	if (session.form == NBD_FORM_EXTENDED && type != NBD_CMD_WRITE && size > 1024) {
		assert_refused(type, flags, 2, UINT64_MAX, error);
		assert_refused(type, flags, size - 512, UINT64_MAX - size + 514, error);
	}
}

START_TEST(requests_end_with_the_export)
{
	static const uint64_t sizes[] = {512,       65536,          SIZE,      SIZE + 1,
					 INT64_MAX, UINT64_MAX - 1, UINT64_MAX};

	session.form = _i;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_ends_at(sizes[i], NBD_CMD_READ, 0, NBD_EINVAL);
		assert_ends_at(sizes[i], NBD_CMD_WRITE, PAYLOAD, NBD_ENOSPC);
		assert_ends_at(sizes[i], NBD_CMD_TRIM, 0, NBD_EINVAL);
		assert_ends_at(sizes[i], NBD_CMD_CACHE, 0, NBD_EINVAL);
		assert_ends_at(sizes[i], NBD_CMD_WRITE_ZEROES, 0, NBD_ENOSPC);
		assert_ends_at(sizes[i], NBD_CMD_BLOCK_STATUS, 0, NBD_EINVAL);
	}
}
END_TEST

START_TEST(empty_export_has_nothing_to_read)
{
	session.form = _i;
	session.size = 0;
	assert_refused(NBD_CMD_READ, 0, 0, 1, NBD_EINVAL);
	assert_refused(NBD_CMD_WRITE, PAYLOAD, 0, 1, NBD_ENOSPC);
	ck_assert_int_eq(judge(NBD_CMD_READ, 0, 0, 0), NBD_VERDICT_NOTHING);
}
END_TEST

START_TEST(length_zero_asks_for_nothing)
{
	static const unsigned int types[] = {NBD_CMD_READ, NBD_CMD_WRITE, NBD_CMD_TRIM,
					     NBD_CMD_CACHE, NBD_CMD_WRITE_ZEROES};

	session.form = _i;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		unsigned int flags = types[i] == NBD_CMD_WRITE ? PAYLOAD : 0;

		ck_assert_int_eq(judge(types[i], flags, 4096, 0), NBD_VERDICT_NOTHING);
		ck_assert_uint_eq(check.payload, 0);
		ck_assert_int_eq(judge(types[i], flags | NBD_CMD_FLAG_FUA, SIZE, 0),
				 NBD_VERDICT_NOTHING);
		ck_assert_int_eq(judge(types[i], flags, SIZE + 1, 0), NBD_VERDICT_REFUSE);
	}
	assert_refused(NBD_CMD_BLOCK_STATUS, 0, 0, 0, NBD_EINVAL);
}
END_TEST

START_TEST(flush_has_neither_offset_nor_length)
{
	session.form = _i;
	assert_refused(NBD_CMD_FLUSH, 0, 1, 0, NBD_EINVAL);
	assert_refused(NBD_CMD_FLUSH, 0, 0, 1, NBD_EINVAL);
	assert_refused(NBD_CMD_FLUSH, 0, UINT64_MAX, UINT32_MAX, NBD_EINVAL);
}
END_TEST

START_TEST(disconnect_is_always_understood)
{
	session.form = _i;
	ck_assert_int_eq(judge(NBD_CMD_DISC, 0, 0, 0), NBD_VERDICT_DISCONNECT);
	ck_assert_int_eq(judge(NBD_CMD_DISC, UINT16_MAX, UINT64_MAX, UINT32_MAX),
			 NBD_VERDICT_DISCONNECT);
}
END_TEST

START_TEST(read_of_more_than_the_maximum_is_refused)
{
	session.form = _i;
	assert_served(NBD_CMD_READ, 0, 0, MOST);
	assert_refused(NBD_CMD_READ, 0, 0, MOST + 1,
		       _i == NBD_FORM_SIMPLE ? NBD_EINVAL : NBD_EOVERFLOW);
	assert_refused(NBD_CMD_READ, 0, 0, UINT32_MAX,
		       _i == NBD_FORM_SIMPLE ? NBD_EINVAL : NBD_EOVERFLOW);
	/* An end past the export's comes first. */
	assert_refused(NBD_CMD_READ, 0, SIZE - 1, MOST + 1, NBD_EINVAL);
}
END_TEST

START_TEST(write_of_more_than_the_maximum_is_received_and_refused)
{
	session.form = _i;
	assert_served(NBD_CMD_WRITE, PAYLOAD, 0, MOST);
	assert_refused(NBD_CMD_WRITE, PAYLOAD, 0, MOST + 1, NBD_EINVAL);
	assert_refused(NBD_CMD_WRITE, PAYLOAD, 0, NBD_PAYLOAD_DEFAULT, NBD_EINVAL);
}
END_TEST

START_TEST(write_of_more_than_can_be_received_is_dropped)
{
	session.form = _i;
	assert_dropped(NBD_CMD_WRITE, PAYLOAD, 0, NBD_PAYLOAD_DEFAULT + 1);
	assert_dropped(NBD_CMD_WRITE, PAYLOAD, 0, UINT32_MAX);
	assert_dropped(NBD_CMD_WRITE, PAYLOAD | NBD_CMD_FLAG_REQ_ONE, UINT64_MAX, UINT32_MAX);
	session.max_payload = 64u << 20;
	assert_served(NBD_CMD_WRITE, PAYLOAD, 0, 64u << 20);
	assert_dropped(NBD_CMD_WRITE, PAYLOAD, 0, (64u << 20) + 1);
}
END_TEST

START_TEST(commands_without_payload_may_be_long)
{
	uint64_t most = _i == NBD_FORM_EXTENDED ? SIZE : UINT32_MAX;

	session.form = _i;
	assert_served(NBD_CMD_TRIM, 0, 0, most);
	assert_served(NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_FAST_ZERO, 0, most);
	assert_served(NBD_CMD_CACHE, 0, 0, most);
	assert_served(NBD_CMD_BLOCK_STATUS, 0, 0, most);
}
END_TEST

START_TEST(block_status_needs_its_context)
{
	session.form = _i;
	session.allocation = false;
	assert_refused(NBD_CMD_BLOCK_STATUS, 0, 0, 512, NBD_EINVAL);
}
END_TEST

/* ---- The payload flag */

START_TEST(payload_flag_is_invalid_in_compact_headers)
{
	session.form = NBD_FORM_STRUCTURED;
	assert_refused(NBD_CMD_WRITE, NBD_CMD_FLAG_PAYLOAD_LEN, 0, 512, NBD_EINVAL);
	assert_refused(NBD_CMD_BLOCK_STATUS, NBD_CMD_FLAG_PAYLOAD_LEN, 0, 512, NBD_EINVAL);
}
END_TEST

/* QEMU 10.0 sends its writes like this. */
START_TEST(extended_write_without_the_payload_flag_has_its_data)
{
	session.form = NBD_FORM_EXTENDED;
	assert_served(NBD_CMD_WRITE, 0, 0, 512);
	assert_served(NBD_CMD_WRITE, NBD_CMD_FLAG_FUA, 0, 4096);
	assert_dropped(NBD_CMD_WRITE, 0, 0, UINT64_MAX);
}
END_TEST

START_TEST(payload_that_no_command_wants_is_received_and_refused)
{
	session.form = NBD_FORM_EXTENDED;
	for (unsigned int type = 0; type < 20; type++) {
		if (type == NBD_CMD_WRITE || type == NBD_CMD_DISC)
			continue;
		assert_refused(type, NBD_CMD_FLAG_PAYLOAD_LEN, 0, 0, NBD_EINVAL);
		assert_refused(type, NBD_CMD_FLAG_PAYLOAD_LEN, 0, 12, NBD_EINVAL);
		assert_refused(type, NBD_CMD_FLAG_PAYLOAD_LEN, 0, NBD_PAYLOAD_DEFAULT, NBD_EINVAL);
		assert_dropped(type, NBD_CMD_FLAG_PAYLOAD_LEN, 0, NBD_PAYLOAD_DEFAULT + 1);
		assert_dropped(type, NBD_CMD_FLAG_PAYLOAD_LEN, 0, UINT64_MAX);
	}
}
END_TEST

START_TEST(export_that_grew_may_be_read_to_its_new_end)
{
	assert_refused(NBD_CMD_READ, 0, SIZE, 512, NBD_EINVAL);
	session.size = SIZE + 512;
	assert_served(NBD_CMD_READ, 0, SIZE, 512);
}
END_TEST

#define ALL_FORMS .first = NBD_FORM_SIMPLE, .last = NBD_FORM_EXTENDED + 1

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "rules", .begin = begin},
		{.test = good_requests_are_served, ALL_FORMS},
		{.test = unaligned_requests_are_served, ALL_FORMS},
		{.test = unknown_commands_are_invalid_without_payload, ALL_FORMS},
		{.test = flags_of_other_commands_are_invalid, ALL_FORMS},
		{.test = flags_that_were_not_offered_are_invalid, ALL_FORMS},
		{.test = commands_that_were_not_offered_are_invalid, ALL_FORMS},
		{.test = writing_to_a_read_only_export_is_not_permitted, ALL_FORMS},
		{.test = requests_end_with_the_export, ALL_FORMS},
		{.test = empty_export_has_nothing_to_read, ALL_FORMS},
		{.test = length_zero_asks_for_nothing, ALL_FORMS},
		{.test = flush_has_neither_offset_nor_length, ALL_FORMS},
		{.test = disconnect_is_always_understood, ALL_FORMS},
		{.test = read_of_more_than_the_maximum_is_refused, ALL_FORMS},
		{.test = write_of_more_than_the_maximum_is_received_and_refused, ALL_FORMS},
		{.test = write_of_more_than_can_be_received_is_dropped, ALL_FORMS},
		{.test = commands_without_payload_may_be_long, ALL_FORMS},
		{.test = block_status_needs_its_context, ALL_FORMS},
		{.test = payload_flag_is_invalid_in_compact_headers},
		{.test = extended_write_without_the_payload_flag_has_its_data},
		{.test = payload_that_no_command_wants_is_received_and_refused},
		{.test = export_that_grew_may_be_read_to_its_new_end},
		{0},
	};

	return suite_run("nbd_request", cases);
}
