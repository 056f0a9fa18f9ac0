/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC-32C (Castagnoli), as iSCSI has it: the checksum of files of our own.
 */
#ifndef COMMON_CRC32C_H
#define COMMON_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of `size` bytes that follow those whose checksum is `before`; 0: nothing came
 * before. That of "123456789" is 0xe3069283. */
uint32_t
crc32c(uint32_t before, const void *bytes, size_t size);

/* The same as it is computed on machines whose processor has no instruction for it. */
uint32_t
crc32c_by_table(uint32_t before, const void *bytes, size_t size);

#endif
