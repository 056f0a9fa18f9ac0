/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of a delta file, which nbdloop-backup(7) documents ("The format of a delta"): a header,
 * records, and a record that says that it is whole.  Bytes in and bytes out; delta_end.h has the
 * files.  All numbers are big-endian.
 */
#ifndef TOOL_BACKUP_DELTA_FORMAT_H
#define TOOL_BACKUP_DELTA_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DELTA_VERSION     1
#define DELTA_ID_SIZE     16                            /* bytes */
#define DELTA_TEXT_MAX    4096                          /* bytes of each text, without a NUL */
#define DELTA_FIXED_SIZE  80                            /* bytes of the header before its texts */
#define DELTA_HEADER_MAX  (80 + 2 * DELTA_TEXT_MAX + 4) /* bytes */
#define DELTA_RECORD_SIZE 32                            /* bytes, without the data */
#define DELTA_DATA_MAX    (1 << 20)                     /* bytes of one record's data */

struct delta_header {
	uint64_t size;                 /* of the image, bytes */
	uint64_t number;               /* 0: a full backup; else 1 more than the parent's */
	uint64_t seconds;              /* when it was begun, since 1970 */
	uint8_t id[DELTA_ID_SIZE];     /* random, of this backup */
	uint8_t parent[DELTA_ID_SIZE]; /* of the backup that it belongs on; zeroes if it is full */
	char source[DELTA_TEXT_MAX + 1]; /* URI of the export */
	char bitmap[DELTA_TEXT_MAX + 1]; /* whose changes come next; "": none */

	/* Set by the functions below. */
	uint32_t length;   /* of the encoded header, bytes */
	uint32_t checksum; /* of the encoded header; those of the records continue it */
};

enum delta_record_type {
	DELTA_DATA = 1,
	DELTA_ZEROES = 2,
	/* offset: how many records came before; length: bytes of their data; checksum: how many
	 * later backups were merged into this one */
	DELTA_END = 3,
};

struct delta_record {
	enum delta_record_type type;
	uint32_t checksum;       /* DATA: of the data; END: see above */
	uint64_t offset, length; /* bytes of the image */
};

/* Returns how many bytes it has written. */
size_t
delta_header_encode(struct delta_header *header, uint8_t bytes[DELTA_HEADER_MAX]);

/* `size`: of the bytes that are there, which may be more than the header.  Returns 0, or -EINVAL
 * with what is wrong, such as "it is no delta of nbdloop backup"; the caller frees *error. */
int
delta_header_decode(struct delta_header *header, const uint8_t *bytes, size_t size, char **error);

void
delta_record_encode(const struct delta_header *header, const struct delta_record *record,
		    uint8_t bytes[DELTA_RECORD_SIZE]);

/* The record may be of any type, and is within the image.  Returns as above. */
int
delta_record_decode(const struct delta_header *header, const uint8_t bytes[DELTA_RECORD_SIZE],
		    struct delta_record *record, char **error);

/* Of a record's data. */
uint32_t
delta_data_checksum(const struct delta_header *header, const void *data, size_t size);

/* Whether `next` belongs on `parent` (NULL: on nothing).  Returns 0, or -EINVAL as above. */
int
delta_header_follows(const struct delta_header *next, const struct delta_header *parent,
		     char **error);

#endif
