/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/changes/record_format.h"

#include "common/crc32c.h"
#include "common/error.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

static const char magic[8] = {'n', 'b', 'd', 'l', 'o', 'o', 'p', 'C'};

#define ENTRIES_AT    832u
#define ENTRY_SIZE    184u
#define NAME_SIZE     136u
#define CHECKSUM_SIZE 4u

_Static_assert(ENTRIES_AT + CHECKPOINTS_MAX * ENTRY_SIZE <= RECORD_HEADER_SIZE - CHECKSUM_SIZE,
	       "the header has no room for all checkpoints");
_Static_assert(CHECKPOINT_NAME_MAX < NAME_SIZE, "names have no room");

/* ---- numbers and texts */

static void
format_put(uint8_t *bytes, size_t size, uint64_t value)
{
	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t
format_get(const uint8_t *bytes, size_t size)
{
	uint64_t value = 0;

	for (size_t i = 0; i < size; i++)
		value |= (uint64_t)bytes[i] << 8 * i;
	return value;
}

/* The bytes are zero. */
static void
format_put_text(uint8_t *bytes, const char *text)
{
	memcpy(bytes, text, strlen(text));
}

/* Returns whether there is a text of less than `size` bytes, with zeroes after it. */
static bool
format_get_text(char *text, const uint8_t *bytes, size_t size)
{
	size_t length = strnlen((const char *)bytes, size);

	if (length == size)
		return false;
	memcpy(text, bytes, length);
	text[length] = '\0';
	for (; length < size; length++) {
		if (bytes[length])
			return false;
	}
	return true;
}

/* What goes to the log must not move a terminal's cursor. */
static bool
format_is_printable(const char *text)
{
	while (*text >= ' ' && *text <= '~')
		text++;
	return !*text;
}

static void
format_put_checksum(uint8_t *bytes, size_t size)
{
	format_put(bytes + size - CHECKSUM_SIZE, CHECKSUM_SIZE,
		   crc32c(0, bytes, size - CHECKSUM_SIZE));
}

static bool
format_is_whole(const uint8_t *bytes, size_t size)
{
	return format_get(bytes + size - CHECKSUM_SIZE, CHECKSUM_SIZE) ==
	       crc32c(0, bytes, size - CHECKSUM_SIZE);
}

/* ---- sizes */

uint64_t
record_region_for(uint64_t size)
{
	uint64_t region = RECORD_REGION_MIN;

	while (region < size / RECORD_REGIONS)
		region *= 2;
	return region;
}

uint64_t
record_blocks_for(uint64_t granules)
{
	return granules / RECORD_BLOCK_GRANULES + (granules % RECORD_BLOCK_GRANULES != 0);
}

/* ---- the header */

/* The members in the file's order, from byte 72 on. */
#define WITNESS_MEMBERS(w)                                                                         \
	{                                                                                          \
		&(w)->device, &(w)->inode, &(w)->birth, &(w)->size, &(w)->offset, &(w)->window,    \
			(uint64_t *)&(w)->changed, (uint64_t *)&(w)->modified,                     \
			(uint64_t *)&(w)->seen, (uint64_t *)&(w)->seen_boot,                       \
	}

static void
format_encode_entry(const struct record_entry *entry, uint8_t *bytes)
{
	format_put_text(bytes, entry->name);
	format_put(bytes + 136, 8, entry->granule);
	format_put(bytes + 144, 8, (uint64_t)entry->begun);
	format_put(bytes + 152, 8, entry->covered);
	format_put(bytes + 160, 8, entry->granules);
	format_put(bytes + 168, 8, entry->first_block);
	format_put(bytes + 176, 8, entry->owner);
}

void
record_header_encode(const struct record_header *header, uint8_t bytes[RECORD_HEADER_SIZE])
{
	struct witness witness = header->witness;
	const uint64_t *const members[] = WITNESS_MEMBERS(&witness);

	memset(bytes, 0, RECORD_HEADER_SIZE);
	memcpy(bytes, magic, sizeof(magic));
	format_put(bytes + 8, 4, RECORD_VERSION);
	format_put(bytes + 12, 4, header->state);
	format_put(bytes + 16, 8, header->sequence);
	format_put_text(bytes + 24, witness.boot);
	format_put(bytes + 64, 4, witness.kind);
	format_put(bytes + 68, 4, header->count);
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		format_put(bytes + 72 + 8 * i, 8, *members[i]);
	format_put(bytes + 152, 8, header->region);
	format_put_text(bytes + 160, header->reason);
	for (size_t i = 0; i < RECORD_REGIONS / 64; i++)
		format_put(bytes + 320 + 8 * i, 8, header->regions[i]);
	for (size_t i = 0; i < header->count; i++)
		format_encode_entry(&header->entries[i], bytes + ENTRIES_AT + i * ENTRY_SIZE);
	format_put_checksum(bytes, RECORD_HEADER_SIZE);
}

static bool
format_is_power_of_2(uint64_t value)
{
	return value && !(value & (value - 1));
}

static bool
format_decode_entry(struct record_entry *entry, const uint8_t *bytes)
{
	if (!format_get_text(entry->name, bytes, CHECKPOINT_NAME_MAX + 1) ||
	    format_get(bytes + CHECKPOINT_NAME_MAX + 1, NAME_SIZE - CHECKPOINT_NAME_MAX - 1) != 0)
		return false;
	entry->granule = format_get(bytes + 136, 8);
	entry->begun = (int64_t)format_get(bytes + 144, 8);
	entry->covered = format_get(bytes + 152, 8);
	entry->granules = format_get(bytes + 160, 8);
	entry->first_block = format_get(bytes + 168, 8);
	entry->owner = format_get(bytes + 176, 8);
	return checkpoint_name_is_valid(entry->name) && format_is_power_of_2(entry->granule) &&
	       entry->granule >= CHECKPOINT_GRANULE_MIN &&
	       entry->granule <= CHECKPOINT_GRANULE_MAX &&
	       entry->granules <= INT64_MAX / CHECKPOINT_GRANULE_MAX &&
	       entry->covered <= entry->granules * entry->granule &&
	       entry->first_block <= INT64_MAX / RECORD_BLOCK_SIZE / 4;
}

/* Returns whether no two checkpoints have the same name or a common block. */
static bool
format_are_apart(const struct record_header *header)
{
	for (size_t i = 0; i < header->count; i++) {
		const struct record_entry *a = &header->entries[i];

		for (size_t j = 0; j < i; j++) {
			const struct record_entry *b = &header->entries[j];

			if (strcmp(a->name, b->name) == 0 ||
			    (a->first_block < b->first_block + record_blocks_for(b->granules) &&
			     b->first_block < a->first_block + record_blocks_for(a->granules)))
				return false;
		}
	}
	return true;
}

/* Returns whether all bytes from `from` up to the checksum are zero. */
static bool
format_is_rest_zero(const uint8_t *bytes, size_t from)
{
	while (from < RECORD_HEADER_SIZE - CHECKSUM_SIZE && !bytes[from])
		from++;
	return from == RECORD_HEADER_SIZE - CHECKSUM_SIZE;
}

static bool
format_decode(struct record_header *header, const uint8_t *bytes)
{
	uint64_t *const members[] = WITNESS_MEMBERS(&header->witness);

	header->state = (enum record_state)format_get(bytes + 12, 4);
	header->sequence = format_get(bytes + 16, 8);
	header->witness.kind = (uint32_t)format_get(bytes + 64, 4);
	header->count = (uint32_t)format_get(bytes + 68, 4);
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
		*members[i] = format_get(bytes + 72 + 8 * i, 8);
	header->region = format_get(bytes + 152, 8);
	for (size_t i = 0; i < RECORD_REGIONS / 64; i++)
		header->regions[i] = format_get(bytes + 320 + 8 * i, 8);
	if (header->state < RECORD_IN_USE || header->state > RECORD_UNKNOWN ||
	    !format_get_text(header->witness.boot, bytes + 24, WITNESS_BOOT) ||
	    !format_get_text(header->reason, bytes + 160, REASON_MAX) ||
	    !format_is_printable(header->reason) || header->witness.kind < 1 ||
	    header->witness.kind > 3 || header->count > CHECKPOINTS_MAX ||
	    !format_is_power_of_2(header->region) || header->region < RECORD_REGION_MIN)
		return false;
	for (size_t i = 0; i < header->count; i++) {
		if (!format_decode_entry(&header->entries[i], bytes + ENTRIES_AT + i * ENTRY_SIZE))
			return false;
	}
	return format_is_rest_zero(bytes, ENTRIES_AT + header->count * ENTRY_SIZE) &&
	       format_are_apart(header);
}

int
record_header_decode(struct record_header *header, const uint8_t bytes[RECORD_HEADER_SIZE],
		     char **error)
{
	uint32_t version = (uint32_t)format_get(bytes + 8, 4);

	*header = (struct record_header){.count = 0};
	if (memcmp(bytes, magic, sizeof(magic)) != 0)
		return error_set(error, -EILSEQ, "is no record of checkpoints");
	if (version != RECORD_VERSION)
		return error_set(error, -ENOTSUP,
				 "is a record of checkpoints of %s version of nbdloopd: it has "
				 "format %u, and this server has format %u",
				 version > RECORD_VERSION ? "a newer" : "an older", version,
				 RECORD_VERSION);
	if (format_is_whole(bytes, RECORD_HEADER_SIZE) && format_decode(header, bytes))
		return 0;
	return error_set(error, -EBADMSG, "is a record of checkpoints that is torn or corrupted");
}

/* ---- blocks */

void
record_block_encode(const uint64_t *words, uint64_t owner, uint32_t number,
		    uint8_t bytes[RECORD_BLOCK_SIZE])
{
	for (size_t i = 0; i < RECORD_BLOCK_WORDS; i++)
		format_put(bytes + 8 * i, 8, words[i]);
	format_put(bytes + 496, 8, owner);
	format_put(bytes + 504, 4, number);
	format_put_checksum(bytes, RECORD_BLOCK_SIZE);
}

int
record_block_decode(uint64_t *words, uint64_t owner, uint32_t number,
		    const uint8_t bytes[RECORD_BLOCK_SIZE])
{
	if (!format_is_whole(bytes, RECORD_BLOCK_SIZE) || format_get(bytes + 496, 8) != owner ||
	    format_get(bytes + 504, 4) != number)
		return -EBADMSG;
	for (size_t i = 0; i < RECORD_BLOCK_WORDS; i++)
		words[i] = format_get(bytes + 8 * i, 8);
	return 0;
}
