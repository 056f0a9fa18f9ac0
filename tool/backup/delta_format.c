/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/backup/delta_format.h"

#include "common/crc32c.h"
#include "common/error.h"
#include "nbd/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#define MAGIC      "NBDDELTA"
#define MAGIC_SIZE 8

/* ---- the header */

/* Where its fields are, bytes. */
enum {
	AT_VERSION = MAGIC_SIZE,
	AT_LENGTH = 12,
	AT_SIZE = 16,
	AT_NUMBER = 24,
	AT_SECONDS = 32,
	AT_ID = 40,
	AT_PARENT = 56,
	AT_SOURCE_LENGTH = 72,
	AT_BITMAP_LENGTH = 76,
};

size_t
delta_header_encode(struct delta_header *header, uint8_t bytes[DELTA_HEADER_MAX])
{
	const size_t source = strlen(header->source), bitmap = strlen(header->bitmap);
	uint8_t *next = bytes;

	header->length = (uint32_t)(DELTA_FIXED_SIZE + source + bitmap + 4);
	next = mempcpy(next, MAGIC, MAGIC_SIZE);
	next = wire_store32(next, DELTA_VERSION);
	next = wire_store32(next, header->length);
	next = wire_store64(next, header->size);
	next = wire_store64(next, header->number);
	next = wire_store64(next, header->seconds);
	next = mempcpy(next, header->id, DELTA_ID_SIZE);
	next = mempcpy(next, header->parent, DELTA_ID_SIZE);
	next = wire_store32(next, (uint32_t)source);
	next = wire_store32(next, (uint32_t)bitmap);
	next = mempcpy(next, header->source, source);
	next = mempcpy(next, header->bitmap, bitmap);
	header->checksum = crc32c(0, bytes, (size_t)(next - bytes));
	wire_store32(next, header->checksum);
	return header->length;
}

/* False: the text has a byte of zero. */
static bool
delta_get_text(char text[DELTA_TEXT_MAX + 1], const uint8_t *bytes, uint32_t length)
{
	memcpy(text, bytes, length);
	text[length] = '\0';
	return strlen(text) == length;
}

static int
check_magic(const uint8_t *bytes, size_t size, char **error)
{
	if (size < MAGIC_SIZE + 4 || memcmp(bytes, MAGIC, MAGIC_SIZE) != 0)
		return error_set(error, -EINVAL, "it is no delta of nbdloop backup");
	if (wire_load32(bytes + AT_VERSION) != DELTA_VERSION)
		return error_set(error, -EINVAL,
				 "its format has version %" PRIu32
				 ", and this program knows only version %d",
				 wire_load32(bytes + AT_VERSION), DELTA_VERSION);
	return 0;
}

static bool
lengths_fit(const uint8_t *bytes, size_t size)
{
	uint32_t length, source, bitmap;

	if (size < DELTA_FIXED_SIZE)
		return false;
	length = wire_load32(bytes + AT_LENGTH);
	source = wire_load32(bytes + AT_SOURCE_LENGTH);
	bitmap = wire_load32(bytes + AT_BITMAP_LENGTH);
	return source <= DELTA_TEXT_MAX && bitmap <= DELTA_TEXT_MAX &&
	       length == DELTA_FIXED_SIZE + source + bitmap + 4 && length <= size;
}

int
delta_header_decode(struct delta_header *header, const uint8_t *bytes, size_t size, char **error)
{
	int r = check_magic(bytes, size, error);
	uint32_t source;

	if (r < 0)
		return r;
	if (!lengths_fit(bytes, size))
		return error_set(error, -EINVAL, "its header is torn");
	header->length = wire_load32(bytes + AT_LENGTH);
	header->checksum = crc32c(0, bytes, header->length - 4);
	if (header->checksum != wire_load32(bytes + header->length - 4))
		return error_set(error, -EINVAL, "its header has a wrong checksum");
	header->size = wire_load64(bytes + AT_SIZE);
	header->number = wire_load64(bytes + AT_NUMBER);
	header->seconds = wire_load64(bytes + AT_SECONDS);
	memcpy(header->id, bytes + AT_ID, DELTA_ID_SIZE);
	memcpy(header->parent, bytes + AT_PARENT, DELTA_ID_SIZE);
	source = wire_load32(bytes + AT_SOURCE_LENGTH);
	if (!delta_get_text(header->source, bytes + DELTA_FIXED_SIZE, source) ||
	    !delta_get_text(header->bitmap, bytes + DELTA_FIXED_SIZE + source,
			    wire_load32(bytes + AT_BITMAP_LENGTH)))
		return error_set(error, -EINVAL, "a text in its header has a byte of zero");
	if (header->size > INT64_MAX)
		return error_set(error, -EINVAL, "its image is too large: %" PRIu64 " bytes",
				 header->size);
	return 0;
}

int
delta_header_follows(const struct delta_header *next, const struct delta_header *parent,
		     char **error)
{
	static const uint8_t none[DELTA_ID_SIZE];

	if (!parent)
		return next->number == 0 && memcmp(next->parent, none, DELTA_ID_SIZE) == 0
			       ? 0
			       : error_set(error, -EINVAL,
					   "it is increment %" PRIu64
					   ", and the full backup that it begins with is missing",
					   next->number);
	if (next->number != parent->number + 1)
		return error_set(error, -EINVAL,
				 "it is increment %" PRIu64 ", and increment %" PRIu64
				 " is missing",
				 next->number, parent->number + 1);
	if (memcmp(next->parent, parent->id, DELTA_ID_SIZE) != 0)
		return error_set(error, -EINVAL,
				 "it belongs on another backup than the one before it");
	if (next->size != parent->size)
		return error_set(error, -EINVAL,
				 "its image has %" PRIu64
				 " bytes, and that of the backup before it "
				 "%" PRIu64,
				 next->size, parent->size);
	return 0;
}

/* ---- records */

void
delta_record_encode(const struct delta_header *header, const struct delta_record *record,
		    uint8_t bytes[DELTA_RECORD_SIZE])
{
	uint8_t *next = bytes;

	next = wire_store32(next, record->type);
	next = wire_store32(next, record->checksum);
	next = wire_store64(next, record->offset);
	next = wire_store64(next, record->length);
	next = wire_store32(next, 0);
	wire_store32(next, crc32c(header->checksum, bytes, (size_t)(next - bytes)));
}

int
delta_record_decode(const struct delta_header *header, const uint8_t bytes[DELTA_RECORD_SIZE],
		    struct delta_record *record, char **error)
{
	const uint32_t type = wire_load32(bytes);

	if (wire_load32(bytes + DELTA_RECORD_SIZE - 4) !=
	    crc32c(header->checksum, bytes, DELTA_RECORD_SIZE - 4))
		return error_set(error, -EINVAL, "a record has a wrong checksum");
	if (type != DELTA_DATA && type != DELTA_ZEROES && type != DELTA_END)
		return error_set(error, -EINVAL, "a record has the unknown type %" PRIu32, type);
	if (wire_load32(bytes + 24) != 0)
		return error_set(error, -EINVAL, "a record has unknown flags");
	*record = (struct delta_record){
		.type = type,
		.checksum = wire_load32(bytes + 4),
		.offset = wire_load64(bytes + 8),
		.length = wire_load64(bytes + 16),
	};
	if (type != DELTA_END && (record->length == 0 || record->length > header->size ||
				  record->offset > header->size - record->length ||
				  (type == DELTA_DATA && record->length > DELTA_DATA_MAX)))
		return error_set(error, -EINVAL, "a record is not within the image");
	return 0;
}

uint32_t
delta_data_checksum(const struct delta_header *header, const void *data, size_t size)
{
	return crc32c(header->checksum, data, size);
}
