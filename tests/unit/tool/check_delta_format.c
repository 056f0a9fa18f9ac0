/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The format of a delta: what is written can be read, and nothing else can.
 */
#include "tool/backup/delta_format.h"

#include "common/crc32c.h"

#include "tests/lib/suite.h"

#include "common/cleanup.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct delta_header header, seen;
static uint8_t bytes[DELTA_HEADER_MAX];
static size_t size;
static char *why;

static void
begin(void)
{
	header = (struct delta_header){
		.size = 1 << 20,
		.number = 3,
		.seconds = 1795000000,
		.id = {1, 2, 3},
		.parent = {4, 5, 6},
		.source = "nbd://host/disk",
		.bitmap = "monday",
	};
	size = delta_header_encode(&header, bytes);
	why = NULL;
}

static void
end(void)
{
	free(why);
}

START_TEST(checksum_is_that_of_iscsi)
{
	const char *text = "123456789";
	uint8_t zeroes[32] = {0};

	ck_assert_uint_eq(crc32c(0, text, 9), 0xe3069283);
	ck_assert_uint_eq(crc32c(crc32c(0, text, 4), text + 4, 5), 0xe3069283);
	ck_assert_uint_eq(crc32c(0, zeroes, sizeof(zeroes)), 0x8a9136aa); /* RFC 3720, B.4 */
}
END_TEST

START_TEST(checksum_is_the_same_on_each_processor)
{
	uint8_t data[100];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 151 + 7);
	for (size_t from = 0; from < 16; from++)
		for (size_t length = 0; from + length <= sizeof(data); length++)
			ck_assert_uint_eq(crc32c(0x12345678, data + from, length),
					  crc32c_by_table(0x12345678, data + from, length));
}
END_TEST

START_TEST(header_is_read_as_it_was_written)
{
	ck_assert_uint_eq(size, 80 + strlen("nbd://host/disk") + strlen("monday") + 4);
	ck_assert_int_eq(memcmp(bytes, "NBDDELTA\0\0\0\1", 12), 0);
	ck_assert_int_eq(delta_header_decode(&seen, bytes, sizeof(bytes), &why), 0);
	ck_assert_uint_eq(seen.size, 1 << 20);
	ck_assert_uint_eq(seen.number, 3);
	ck_assert_uint_eq(seen.seconds, 1795000000);
	ck_assert_mem_eq(seen.id, header.id, DELTA_ID_SIZE);
	ck_assert_mem_eq(seen.parent, header.parent, DELTA_ID_SIZE);
	ck_assert_str_eq(seen.source, "nbd://host/disk");
	ck_assert_str_eq(seen.bitmap, "monday");
	ck_assert_uint_eq(seen.length, size);
	ck_assert_uint_eq(seen.checksum, header.checksum);
}
END_TEST

START_TEST(changed_bit_of_the_header_is_found)
{
	for (size_t bit = 0; bit < 8 * size; bit++) {
		char *CLEANUP_FREE error = NULL;

		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_msg(delta_header_decode(&seen, bytes, size, &error) < 0, "bit %zu", bit);
		ck_assert_ptr_nonnull(error);
		bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}
END_TEST

START_TEST(torn_header_is_found)
{
	for (size_t shorter = 0; shorter < size; shorter++) {
		char *CLEANUP_FREE error = NULL;
		uint8_t *CLEANUP_FREE part = malloc(shorter + 1);

		memcpy(part, bytes, shorter);
		ck_assert_int_lt(delta_header_decode(&seen, part, shorter, &error), 0);
		ck_assert_ptr_nonnull(error);
	}
}
END_TEST

START_TEST(later_version_is_refused_with_words)
{
	bytes[11] = 2;
	ck_assert_int_lt(delta_header_decode(&seen, bytes, size, &why), 0);
	ck_assert_str_eq(why, "its format has version 2, and this program knows only version 1");
}
END_TEST

START_TEST(record_is_read_as_it_was_written)
{
	const struct delta_record record = {
		.type = DELTA_DATA, .checksum = 7, .offset = 4096, .length = 65536};
	uint8_t encoded[DELTA_RECORD_SIZE];
	struct delta_record decoded;

	delta_record_encode(&header, &record, encoded);
	ck_assert_int_eq(delta_record_decode(&header, encoded, &decoded, &why), 0);
	ck_assert_int_eq(decoded.type, DELTA_DATA);
	ck_assert_uint_eq(decoded.checksum, 7);
	ck_assert_uint_eq(decoded.offset, 4096);
	ck_assert_uint_eq(decoded.length, 65536);
	for (size_t bit = 0; bit < 8 * sizeof(encoded); bit++) {
		char *CLEANUP_FREE error = NULL;

		encoded[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_int_lt(delta_record_decode(&header, encoded, &decoded, &error), 0);
		ck_assert_str_eq(error, "a record has a wrong checksum");
		encoded[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}
END_TEST

START_TEST(record_of_another_file_is_found)
{
	const struct delta_record record = {.type = DELTA_ZEROES, .offset = 0, .length = 512};
	uint8_t encoded[DELTA_RECORD_SIZE];
	struct delta_record decoded;

	delta_record_encode(&header, &record, encoded);
	header.number++;
	delta_header_encode(&header, bytes);
	ck_assert_int_lt(delta_record_decode(&header, encoded, &decoded, &why), 0);
}
END_TEST

START_TEST(record_beyond_the_image_is_refused)
{
	static const struct delta_record all[] = {
		{.type = DELTA_ZEROES, .offset = 0, .length = (1 << 20) + 1},
		{.type = DELTA_ZEROES, .offset = 1 << 20, .length = 1},
		{.type = DELTA_ZEROES, .offset = UINT64_MAX, .length = 2},
		{.type = DELTA_ZEROES, .offset = 0, .length = 0},
		{.type = DELTA_DATA, .offset = (1 << 20) - 1, .length = 2},
	};
	uint8_t encoded[DELTA_RECORD_SIZE];
	struct delta_record decoded;

	delta_record_encode(&header, &all[_i], encoded);
	ck_assert_int_lt(delta_record_decode(&header, encoded, &decoded, &why), 0);
	ck_assert_str_eq(why, "a record is not within the image");
}
END_TEST

START_TEST(only_the_next_increment_follows)
{
	static const struct {
		uint64_t number, size;
		uint8_t parent;
		const char *wanted; /* NULL: it follows */
	} all[] = {
		{4, 1 << 20, 1, NULL},
		{5, 1 << 20, 1, "it is increment 5, and increment 4 is missing"},
		{4, 1 << 20, 9, "it belongs on another backup than the one before it"},
		{4, 1 << 21, 1,
		 "its image has 2097152 bytes, and that of the backup before it 1048576"},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		char *CLEANUP_FREE error = NULL;

		seen = header;
		seen.number = all[i].number;
		seen.size = all[i].size;
		memcpy(seen.parent, header.id, DELTA_ID_SIZE);
		seen.parent[0] = all[i].parent;
		ck_assert_int_eq(delta_header_follows(&seen, &header, &error) == 0, !all[i].wanted);
		ck_assert_pstr_eq(error, all[i].wanted);
	}
	ck_assert_int_lt(delta_header_follows(&header, NULL, &why), 0);
	ck_assert_str_eq(why,
			 "it is increment 3, and the full backup that it begins with is missing");
	header.number = 0;
	memset(header.parent, 0, DELTA_ID_SIZE);
	ck_assert_int_eq(delta_header_follows(&header, NULL, NULL), 0);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "format", .begin = begin, .end = end},
		{.test = checksum_is_that_of_iscsi},
		{.test = checksum_is_the_same_on_each_processor},
		{.test = header_is_read_as_it_was_written},
		{.test = changed_bit_of_the_header_is_found},
		{.test = torn_header_is_found},
		{.test = later_version_is_refused_with_words},
		{.test = record_is_read_as_it_was_written},
		{.test = record_of_another_file_is_found},
		{.test = record_beyond_the_image_is_refused, .last = 5},
		{.test = only_the_next_increment_follows},
		{0},
	};

	return suite_run("delta format", cases);
}
