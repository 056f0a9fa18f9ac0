/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/crc32c.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#define POLYNOMIAL UINT32_C(0x82f63b78) /* with its bits reversed */
#define AT_ONCE    8                    /* bytes that one step takes ("slicing by 8") */

/* table[n][byte]: what the byte does to the checksum when n bytes of zero follow it. */
static uint32_t table[AT_ONCE][256];

static void
make_table(void)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t sum = byte;

		for (int bit = 0; bit < 8; bit++)
			sum = sum >> 1 ^ (sum & 1 ? POLYNOMIAL : 0);
		table[0][byte] = sum;
	}
	for (int n = 1; n < AT_ONCE; n++) {
		for (int byte = 0; byte < 256; byte++) {
			uint32_t sum = table[n - 1][byte];

			table[n][byte] = sum >> 8 ^ table[0][sum & 0xff];
		}
	}
}

/* As the bytes stand, whatever the machine's order is. */
static uint32_t
little_endian(const uint8_t *bytes)
{
	return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
	       (uint32_t)bytes[3] << 24;
}

static uint32_t
crc32c_step(uint32_t sum, const uint8_t *bytes)
{
	uint32_t low = little_endian(bytes) ^ sum, high = little_endian(bytes + 4);

	return table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^ table[5][low >> 16 & 0xff] ^
	       table[4][low >> 24] ^ table[3][high & 0xff] ^ table[2][high >> 8 & 0xff] ^
	       table[1][high >> 16 & 0xff] ^ table[0][high >> 24];
}

static uint32_t
by_table(uint32_t sum, const uint8_t *next, size_t size)
{
	for (; size >= AT_ONCE; size -= AT_ONCE, next += AT_ONCE)
		sum = crc32c_step(sum, next);
	for (; size; size--, next++)
		sum = sum >> 8 ^ table[0][(sum ^ *next) & 0xff];
	return sum;
}

/* ---- by the processor's own instruction, which is ten times as fast */

#ifdef __x86_64__
static bool has_instruction;

static void
find_instruction(void)
{
	has_instruction = __builtin_cpu_supports("sse4.2");
}

__attribute__((target("sse4.2"))) static uint32_t
by_instruction(uint32_t sum, const uint8_t *next, size_t size)
{
	uint64_t wide = sum;

	for (; size >= AT_ONCE; size -= AT_ONCE, next += AT_ONCE) {
		uint64_t word;

		memcpy(&word, next, sizeof(word));
		wide = __builtin_ia32_crc32di(wide, word);
	}
	sum = (uint32_t)wide;
	for (; size; size--, next++)
		sum = __builtin_ia32_crc32qi(sum, *next);
	return sum;
}
#else
static const bool has_instruction;

static void
find_instruction(void)
{
}

static uint32_t
by_instruction(uint32_t sum, const uint8_t *next, size_t size)
{
	return by_table(sum, next, size);
}
#endif

static void
crc32c_prepare(void)
{
	make_table();
	find_instruction();
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

uint32_t
crc32c(uint32_t before, const void *bytes, size_t size)
{
	pthread_once(&once, crc32c_prepare);
	return ~(has_instruction ? by_instruction(~before, bytes, size)
				 : by_table(~before, bytes, size));
}

uint32_t
crc32c_by_table(uint32_t before, const void *bytes, size_t size)
{
	pthread_once(&once, crc32c_prepare);
	return ~by_table(~before, bytes, size);
}
