/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sizes as people write them.
 */
#ifndef COMMON_UNIT_H
#define COMMON_UNIT_H

#include <stddef.h>
#include <stdint.h>

/*
 * Parses a size in bytes as losetup and nbdkit do: a whole number (decimal or 0x...) and at most
 * one suffix: k K Ki KiB, M Mi MiB, G, T, P, E with powers of 1024; KB MB GB TB PB EB with powers
 * of 1000; b or B (1); s or S (512-byte sectors). No sign, no blanks, no fraction. Returns 0 with
 * *bytes, -EINVAL (not a size) or -ERANGE (more than INT64_MAX bytes: no file is larger).
 */
int
unit_parse_size(const char *text, uint64_t *bytes);

/* Size of the longest text of unit_format_size(), in bytes, with its NUL. */
#define UNIT_SIZE_TEXT 32

/* Writes the shortest exact form of a size: "64k", "4G", "1000". unit_parse_size() parses it to the
 * same number. Returns `text`. */
const char *
unit_format_size(uint64_t bytes, char text[UNIT_SIZE_TEXT]);

#endif
