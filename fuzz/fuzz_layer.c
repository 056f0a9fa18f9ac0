/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The header of a layer, and a block of its map. The fuzzer cannot guess checksums: if the first
 * byte of the input is odd, they are made right, as somebody who means harm would do.
 */
#include "fuzz/fuzz.h"

#include "common/crc32c.h"
#include "engine/layer/layer_format.h"

#include <string.h>

static const struct layer_id id = {.bytes = {1, 2, 3}};

static void
layer_mend(uint8_t *bytes, size_t size, uint32_t begin)
{
	uint32_t sum = crc32c(begin, bytes, size - 4);

	for (unsigned int i = 0; i < 4; i++)
		bytes[size - 4 + i] = (uint8_t)(sum >> 8 * i);
}

/* No sum of what a header says may overflow, and all of it has its place in the file. */
static void
layer_check_header(const struct layer_header *header)
{
	static uint8_t again[LAYER_HEADER_SIZE];
	struct layer_header copy;
	const uint64_t blocks = layer_blocks_for(header->size, header->granule);

	CHECK(header->granule >= LAYER_GRANULE_MIN && header->granule <= LAYER_GRANULE_MAX);
	CHECK(header->size <= LAYER_SIZE_MAX && header->visible <= header->size);
	CHECK(header->data_at + header->size <= INT64_MAX);
	CHECK(blocks == 0 ||
	      layer_block_at(header, blocks - 1, 0) + LAYER_BLOCK_SIZE <= header->other_at);
	CHECK(blocks == 0 ||
	      layer_block_at(header, blocks - 1, 1) + LAYER_BLOCK_SIZE <= header->recent_at);
	CHECK(header->recent_at + blocks * LAYER_BLOCK_SIZE <= header->data_at);
	CHECK(memchr(header->boot, 0, sizeof(header->boot)));
	CHECK(memchr(header->path, 0, sizeof(header->path)));
	layer_header_encode(header, again);
	CHECK(layer_header_decode(&copy, again) == 0);
	CHECK(copy.size == header->size && copy.sequence == header->sequence &&
	      copy.data_at == header->data_at && strcmp(copy.path, header->path) == 0);
}

static void
layer_take_block(const uint8_t *bytes)
{
	static const uint8_t none[LAYER_BLOCK_SIZE];
	struct layer_block block;
	uint8_t again[LAYER_BLOCK_SIZE];

	if (layer_block_decode(&block, &id, 0, bytes) < 0)
		return;
	layer_block_encode(&block, &id, again);
	CHECK(memcmp(bytes, none, sizeof(none)) == 0 || memcmp(again, bytes, sizeof(again)) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t bytes[LAYER_HEADER_SIZE];
	struct layer_header header;

	if (!size)
		return 0;
	memset(bytes, 0, sizeof(bytes));
	memcpy(bytes, data + 1, size - 1 < sizeof(bytes) ? size - 1 : sizeof(bytes));
	if (data[0] & 1)
		layer_mend(bytes, sizeof(bytes), 0);
	if (layer_header_decode(&header, bytes) == 0)
		layer_check_header(&header);
	if (data[0] & 1)
		layer_mend(bytes, LAYER_BLOCK_SIZE, crc32c(0, &id, sizeof(id)));
	layer_take_block(bytes);
	return 0;
}
