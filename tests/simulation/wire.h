/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers as NBD sends them. put...() returns the place after what it has put. */
#ifndef TESTS_SIMULATION_WIRE_H
#define TESTS_SIMULATION_WIRE_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint8_t *
put16(uint8_t *at, uint16_t value)
{
	value = htobe16(value);
	return mempcpy(at, &value, sizeof(value));
}

static inline uint8_t *
put32(uint8_t *at, uint32_t value)
{
	value = htobe32(value);
	return mempcpy(at, &value, sizeof(value));
}

static inline uint8_t *
put64(uint8_t *at, uint64_t value)
{
	value = htobe64(value);
	return mempcpy(at, &value, sizeof(value));
}

/* Its length, and the text. */
static inline uint8_t *
put_text(uint8_t *at, const char *text)
{
	return mempcpy(put32(at, (uint32_t)strlen(text)), text, strlen(text));
}

static inline uint16_t
get16(const uint8_t *at)
{
	uint16_t value;

	memcpy(&value, at, sizeof(value));
	return be16toh(value);
}

static inline uint32_t
get32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return be32toh(value);
}

static inline uint64_t
get64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return be64toh(value);
}

#endif
