/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sizes as people write them.
 */
#ifndef COMMON_UNIT_H
#define COMMON_UNIT_H

#include <stddef.h>
#include <stdint.h>

/*
 * Reads a size in bytes as losetup and nbdkit do: a decimal (or 0x...) whole number
 * and at most one suffix of: k K Ki KiB, M Mi MiB, G, T, P, E with powers of 1024;
 * KB MB GB TB PB EB with powers of 1000; b or B (1); s or S (512-byte sectors).
 * No sign, no blanks, no fraction.  Returns 0, -EINVAL (not a size) or -ERANGE
 * (more than INT64_MAX bytes: no file is larger).  *bytes is set on success only.
 */
int
unit_parse_size(const char *text, uint64_t *bytes);

/* Longest text of unit_format_size(), with its NUL. */
#define UNIT_SIZE_TEXT 32

/* The shortest exact form of a size: "64k", "4G", "1000".  unit_parse_size() reads
 * it back to the same number.  Returns text. */
const char *
unit_format_size(uint64_t bytes, char text[UNIT_SIZE_TEXT]);

#endif
