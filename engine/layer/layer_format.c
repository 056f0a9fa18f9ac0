/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/layer/layer_format.h"

#include "common/crc32c.h"

#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#define FORMAT_VERSION 1u
#define DATA_ALIGN     (UINT64_C(1) << 20)
/* A map has room for a disk that grows, but takes no space for it. */
#define GROWTH       8u
#define CAPACITY_MIN (UINT64_C(64) << 30)

static const char magic[8] = {'n', 'b', 'd', 'l', 'o', 'o', 'p', 'L'};

struct header_bytes {
	char magic[8];
	uint32_t version, state;
	uint64_t sequence;
	struct layer_id id;
	uint64_t size, visible, granule, capacity, recent_at, data_at;
	char boot[LAYER_BOOT];
	uint32_t base, zero;
	uint64_t base_size, base_modified;
	struct layer_id base_id;
	char path[LAYER_PATH_MAX];
	uint64_t opening;
	uint8_t rest[LAYER_HEADER_SIZE - 176 - LAYER_PATH_MAX - 4];
	uint32_t checksum;
};

_Static_assert(sizeof(struct header_bytes) == LAYER_HEADER_SIZE, "the header's size");
_Static_assert(offsetof(struct header_bytes, boot) == 88, "the header's layout");
_Static_assert(offsetof(struct header_bytes, path) == 168, "the header's layout");
_Static_assert(offsetof(struct header_bytes, opening) == 1192, "the header's layout");

static uint64_t
format_round_up(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

uint64_t
layer_blocks_for(uint64_t bytes, uint64_t granule)
{
	const uint64_t block = granule * LAYER_BLOCK_GRANULES;

	return bytes / block + (bytes % block != 0);
}

/* Sets the places that follow from .capacity and .granule. */
static void
format_place(struct layer_header *header)
{
	const uint64_t blocks = layer_blocks_for(header->capacity, header->granule);

	header->other_at = LAYER_STABLE_AT + blocks * LAYER_BLOCK_SIZE;
	header->recent_at = header->other_at + blocks * LAYER_BLOCK_SIZE;
	header->data_at =
		format_round_up(header->recent_at + blocks * LAYER_BLOCK_SIZE, DATA_ALIGN);
}

bool
layer_is_named(const char *path)
{
	static const char ending[] = ".layer";
	const size_t length = strlen(path);

	return length >= sizeof(ending) &&
	       strcmp(path + length - (sizeof(ending) - 1), ending) == 0;
}

void
layer_header_place(struct layer_header *header)
{
	header->capacity = header->size < CAPACITY_MIN / GROWTH     ? CAPACITY_MIN
			   : header->size < LAYER_SIZE_MAX / GROWTH ? header->size * GROWTH
								    : LAYER_SIZE_MAX;
	header->capacity = format_round_up(header->capacity, header->granule);
	format_place(header);
}

void
layer_header_encode(const struct layer_header *header, uint8_t bytes[LAYER_HEADER_SIZE])
{
	struct header_bytes raw = {
		.version = htole32(FORMAT_VERSION),
		.state = htole32(header->state),
		.sequence = htole64(header->sequence),
		.id = header->id,
		.size = htole64(header->size),
		.visible = htole64(header->visible),
		.granule = htole64(header->granule),
		.capacity = htole64(header->capacity),
		.recent_at = htole64(header->recent_at),
		.data_at = htole64(header->data_at),
		.base = htole32(header->base),
		.base_size = htole64(header->base_size),
		.base_modified = htole64((uint64_t)header->base_modified),
		.base_id = header->base_id,
		.opening = htole64(header->opening),
	};

	memcpy(raw.magic, magic, sizeof(magic));
	memcpy(raw.boot, header->boot, strnlen(header->boot, LAYER_BOOT - 1));
	memcpy(raw.path, header->path, strnlen(header->path, LAYER_PATH_MAX - 1));
	raw.checksum = htole32(crc32c(0, &raw, offsetof(struct header_bytes, checksum)));
	memcpy(bytes, &raw, sizeof(raw));
}

bool
layer_header_is_one(const void *bytes)
{
	return memcmp(bytes, magic, sizeof(magic)) == 0;
}

/* Returns whether the numbers make sense, so that no sum of them can overflow. */
static bool
format_is_sane(const struct layer_header *header)
{
	struct layer_header placed = *header;

	if (header->granule < LAYER_GRANULE_MIN || header->granule > LAYER_GRANULE_MAX ||
	    (header->granule & (header->granule - 1)) || header->size > header->capacity ||
	    header->visible > header->size || header->visible > header->base_size ||
	    header->capacity > LAYER_SIZE_MAX || header->capacity % header->granule)
		return false;
	format_place(&placed);
	return placed.recent_at == header->recent_at && placed.data_at == header->data_at;
}

int
layer_header_decode(struct layer_header *header, const uint8_t bytes[LAYER_HEADER_SIZE])
{
	struct header_bytes raw;

	memcpy(&raw, bytes, sizeof(raw));
	if (!layer_header_is_one(raw.magic))
		return -EILSEQ;
	if (le32toh(raw.checksum) != crc32c(0, &raw, offsetof(struct header_bytes, checksum)))
		return -EBADMSG;
	if (le32toh(raw.version) != FORMAT_VERSION)
		return -ENOTSUP;
	*header = (struct layer_header){
		.state = le32toh(raw.state),
		.sequence = le64toh(raw.sequence),
		.id = raw.id,
		.size = le64toh(raw.size),
		.visible = le64toh(raw.visible),
		.granule = le64toh(raw.granule),
		.capacity = le64toh(raw.capacity),
		.recent_at = le64toh(raw.recent_at),
		.data_at = le64toh(raw.data_at),
		.base = le32toh(raw.base),
		.base_size = le64toh(raw.base_size),
		.base_modified = (int64_t)le64toh(raw.base_modified),
		.base_id = raw.base_id,
		.opening = le64toh(raw.opening),
	};
	if (header->state < LAYER_WRITABLE || header->state > LAYER_COMMITTING ||
	    header->base > LAYER_BASE_LAYER || raw.boot[LAYER_BOOT - 1] ||
	    raw.path[LAYER_PATH_MAX - 1] || !format_is_sane(header))
		return -EBADMSG;
	format_place(header);
	memcpy(header->boot, raw.boot, sizeof(raw.boot));
	memcpy(header->path, raw.path, sizeof(raw.path));
	return 0;
}

static uint32_t
format_block_checksum(const struct layer_id *id, const uint8_t *bytes)
{
	return crc32c(crc32c(0, id, sizeof(*id)), bytes, LAYER_BLOCK_SIZE - 4);
}

void
layer_block_encode(const struct layer_block *block, const struct layer_id *id,
		   uint8_t bytes[LAYER_BLOCK_SIZE])
{
	const uint64_t generation = htole64(block->generation);
	uint32_t value = htole32((uint32_t)block->number);

	for (unsigned int i = 0; i < LAYER_BLOCK_WORDS; i++) {
		uint64_t word = htole64(block->words[i]);

		memcpy(bytes + i * 8, &word, 8);
	}
	memcpy(bytes + 496, &generation, 8);
	memcpy(bytes + 504, &value, 4);
	value = htole32(format_block_checksum(id, bytes));
	memcpy(bytes + 508, &value, 4);
}

int
layer_block_decode(struct layer_block *block, const struct layer_id *id, uint64_t number,
		   const uint8_t bytes[LAYER_BLOCK_SIZE])
{
	static const uint8_t none[LAYER_BLOCK_SIZE];
	uint32_t place, checksum;

	*block = (struct layer_block){.number = number};
	if (memcmp(bytes, none, sizeof(none)) == 0)
		return 0;
	memcpy(&block->generation, bytes + 496, 8);
	memcpy(&place, bytes + 504, 4);
	memcpy(&checksum, bytes + 508, 4);
	if (le32toh(place) != (uint32_t)number ||
	    le32toh(checksum) != format_block_checksum(id, bytes))
		return -EBADMSG;
	block->generation = le64toh(block->generation);
	for (unsigned int i = 0; i < LAYER_BLOCK_WORDS; i++) {
		uint64_t word;

		memcpy(&word, bytes + i * 8, 8);
		block->words[i] = le64toh(word);
	}
	return 0;
}
