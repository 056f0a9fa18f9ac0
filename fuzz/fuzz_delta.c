/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A delta file, which may come from anywhere.  The fuzzer can't guess checksums: if the first byte
 * of the input is odd, they are made right, as somebody who means harm would do.
 */
#include "fuzz/fuzz.h"

#include "common/cleanup.h"
#include "common/crc32c.h"
#include "tool/backup/delta_format.h"

#include <endian.h>
#include <string.h>

static void
delta_put_checksum(uint8_t *at, uint32_t sum)
{
	sum = htobe32(sum);
	memcpy(at, &sum, sizeof(sum));
}

/* Makes the header's checksum right, where it says that it ends. */
static void
mend_header(uint8_t *bytes, size_t size)
{
	uint32_t length;

	if (size < DELTA_FIXED_SIZE)
		return;
	memcpy(&length, bytes + 12, sizeof(length));
	length = be32toh(length);
	if (length >= DELTA_FIXED_SIZE && length <= size)
		delta_put_checksum(bytes + length - 4, crc32c(0, bytes, length - 4));
}

static void
delta_check_header(struct delta_header *header, const uint8_t *bytes)
{
	static uint8_t again[DELTA_HEADER_MAX];
	const uint32_t length = header->length, checksum = header->checksum;
	char *CLEANUP_FREE why = NULL;

	CHECK(header->size <= INT64_MAX);
	CHECK(delta_header_encode(header, again) == length && header->checksum == checksum);
	CHECK(memcmp(again, bytes, length) == 0);
	CHECK(delta_header_follows(header, header, &why) < 0 && why);
}

static void
check_record(const struct delta_header *header, const struct delta_record *record,
	     const uint8_t *bytes)
{
	uint8_t again[DELTA_RECORD_SIZE];

	delta_record_encode(header, record, again);
	CHECK(memcmp(again, bytes, sizeof(again)) == 0);
	if (record->type == DELTA_END)
		return;
	CHECK(record->length > 0 && record->length <= header->size);
	CHECK(record->offset <= header->size - record->length);
	CHECK(record->type != DELTA_DATA || record->length <= DELTA_DATA_MAX);
}

static void
take_records(const struct delta_header *header, uint8_t *bytes, size_t size, bool mend)
{
	while (size >= DELTA_RECORD_SIZE) {
		char *CLEANUP_FREE why = NULL;
		struct delta_record record;
		size_t used = DELTA_RECORD_SIZE;

		if (mend)
			delta_put_checksum(bytes + DELTA_RECORD_SIZE - 4,
					   crc32c(header->checksum, bytes, DELTA_RECORD_SIZE - 4));
		if (delta_record_decode(header, bytes, &record, &why) < 0) {
			CHECK(why);
			return;
		}
		check_record(header, &record, bytes);
		if (record.type == DELTA_DATA)
			used += record.length;
		if (record.type == DELTA_END || used > size)
			return;
		bytes += used;
		size -= used;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct delta_header header;
	uint8_t *CLEANUP_FREE bytes = NULL;
	char *CLEANUP_FREE why = NULL;
	bool mend;

	if (!size)
		return 0;
	mend = data[0] & 1;
	size--;
	bytes = malloc(size + 1);
	CHECK(bytes);
	memcpy(bytes, data + 1, size);
	if (mend)
		mend_header(bytes, size);
	if (delta_header_decode(&header, bytes, size, &why) < 0) {
		CHECK(why);
		return 0;
	}
	delta_check_header(&header, bytes);
	take_records(&header, bytes + header.length, size - header.length, mend);
	return 0;
}
