/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The header of a record of checkpoints, and a block.  The fuzzer can't guess checksums: if the
 * first byte of the input is odd, they are made right, as somebody who means harm would do.
 */
#include "fuzz/fuzz.h"

#include "common/cleanup.h"
#include "common/crc32c.h"
#include "engine/changes/record_format.h"

#include <string.h>

static void
record_mend(uint8_t *bytes, size_t size)
{
	uint32_t sum = crc32c(0, bytes, size - 4);

	for (unsigned int i = 0; i < 4; i++)
		bytes[size - 4 + i] = (uint8_t)(sum >> 8 * i);
}

static void
record_check_header(const struct record_header *header, const uint8_t *bytes)
{
	static uint8_t again[RECORD_HEADER_SIZE];

	CHECK(header->count <= CHECKPOINTS_MAX);
	for (uint32_t i = 0; i < header->count; i++) {
		const struct record_entry *entry = &header->entries[i];

		CHECK(checkpoint_name_is_valid(entry->name));
		CHECK(entry->covered <= entry->granules * entry->granule);
		CHECK(entry->first_block + record_blocks_for(entry->granules) <=
		      INT64_MAX / RECORD_BLOCK_SIZE);
	}
	record_header_encode(header, again);
	CHECK(memcmp(again, bytes, sizeof(again)) == 0);
}

static void
take_block(uint8_t *bytes)
{
	uint64_t words[RECORD_BLOCK_WORDS];
	uint8_t again[RECORD_BLOCK_SIZE];

	if (record_block_decode(words, 0, 0, bytes) < 0)
		return;
	record_block_encode(words, 0, 0, again);
	CHECK(memcmp(again, bytes, sizeof(again)) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct record_header header;
	static uint8_t bytes[RECORD_HEADER_SIZE];
	char *CLEANUP_FREE why = NULL;

	if (!size)
		return 0;
	memset(bytes, 0, sizeof(bytes));
	memcpy(bytes, data + 1, size - 1 < sizeof(bytes) ? size - 1 : sizeof(bytes));
	if (data[0] & 1)
		record_mend(bytes, sizeof(bytes));
	if (record_header_decode(&header, bytes, &why) == 0)
		record_check_header(&header, bytes);
	else
		CHECK(why);
	if (data[0] & 1)
		record_mend(bytes, RECORD_BLOCK_SIZE);
	take_block(bytes);
	return 0;
}
