/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers as they are on the wire: big-endian, at any address.
 */
#ifndef NBD_WIRE_H
#define NBD_WIRE_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t
wire_load16(const uint8_t *bytes)
{
	uint16_t number;

	memcpy(&number, bytes, sizeof(number));
	return be16toh(number);
}

static inline uint32_t
wire_load32(const uint8_t *bytes)
{
	uint32_t number;

	memcpy(&number, bytes, sizeof(number));
	return be32toh(number);
}

static inline uint64_t
wire_load64(const uint8_t *bytes)
{
	uint64_t number;

	memcpy(&number, bytes, sizeof(number));
	return be64toh(number);
}

/* Each store returns the address after the number. */
static inline uint8_t *
wire_store16(uint8_t *bytes, uint16_t number)
{
	number = htobe16(number);
	memcpy(bytes, &number, sizeof(number));
	return bytes + sizeof(number);
}

static inline uint8_t *
wire_store32(uint8_t *bytes, uint32_t number)
{
	number = htobe32(number);
	memcpy(bytes, &number, sizeof(number));
	return bytes + sizeof(number);
}

static inline uint8_t *
wire_store64(uint8_t *bytes, uint64_t number)
{
	number = htobe64(number);
	memcpy(bytes, &number, sizeof(number));
	return bytes + sizeof(number);
}

#endif
