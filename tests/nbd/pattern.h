/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The content of images: a pattern gives every byte of an image a value that depends on its offset
 * and on the pattern. Bytes that moved, were lost or came from an older write are so told from the
 * right ones.
 */
#ifndef TESTS_NBD_PATTERN_H
#define TESTS_NBD_PATTERN_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Any other number is a pattern of its own. */
#define PATTERN_ZEROES UINT32_C(0)

/* The pattern's bytes at [offset, offset + length). */
void
pattern_fill(void *buffer, size_t length, uint64_t offset, uint32_t pattern);

/* Index of the first byte that is not the pattern's, or -1. */
ssize_t
pattern_mismatch(const void *buffer, size_t length, uint64_t offset, uint32_t pattern);

/* Index of the first byte at which the two differ, or -1. */
ssize_t
bytes_mismatch(const void *one, const void *other, size_t length);

#endif
