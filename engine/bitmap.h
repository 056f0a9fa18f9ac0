/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bitmap over the bytes of an image: a bit for each granule, which is marked or not. It knows
 * nothing of images. Any thread may mark and read, at the same time. A mark stays.
 */
#ifndef ENGINE_BITMAP_H
#define ENGINE_BITMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bitmap;

/* Makes a bitmap without a mark over `bytes` bytes. `granule`: bytes, a power of 2. What is beyond
 * these bytes counts as marked. Returns NULL if there is no memory; the caller frees the bitmap
 * with free(). */
struct bitmap *
bitmap_new(uint64_t bytes, uint64_t granule);

/* Takes all marks over from one of as many granules, whose size is the same, and what counts as
 * marked. */
void
bitmap_copy(struct bitmap *bitmap, const struct bitmap *from);

/* Returns the number of granules for whose marks there is room. */
uint64_t
bitmap_granules(const struct bitmap *bitmap);

/* Returns how many bytes do not count as marked at once. */
uint64_t
bitmap_covered(const struct bitmap *bitmap);

/* Marks all granules with bytes from `start` up to `end`, end > start. */
void
bitmap_mark(struct bitmap *bitmap, uint64_t start, uint64_t end);

/* Returns whether all granules with bytes from `start` up to `end` are marked, end > start. What
 * has no room for a mark is. */
bool
bitmap_has(const struct bitmap *bitmap, uint64_t start, uint64_t end);

/* Reads or adds the marks of 64 granules per word, the lowest bit first, from word `first` on,
 * which is within the bitmap. Words beyond its end are read as 0, and not added. */
void
bitmap_read(const struct bitmap *bitmap, uint64_t first, size_t count, uint64_t *words);
void
bitmap_add(struct bitmap *bitmap, uint64_t first, size_t count, const uint64_t *words);

/* From now on, all that is beyond `bytes` bytes counts as marked, unless it does already. */
void
bitmap_limit(struct bitmap *bitmap, uint64_t bytes);

/* Returns whether the byte at `start` is marked, and sets *end, at most `limit` (> start), to the
 * first byte after it that differs in that. */
bool
bitmap_run(const struct bitmap *bitmap, uint64_t start, uint64_t limit, uint64_t *end);

#endif
