/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/bitmap.h"

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

#define WORD_BITS 64u

struct bitmap {
	_Atomic uint64_t covered; /* bytes; what is beyond counts as marked */
	unsigned int shift;       /* a granule has 1 << shift bytes */
	uint64_t granules;        /* of .bits */
	_Atomic uint64_t bits[];
};

static uint64_t
bitmap_words(uint64_t granules)
{
	return granules / WORD_BITS + (granules % WORD_BITS != 0);
}

struct bitmap *
bitmap_new(uint64_t bytes, uint64_t granule)
{
	uint64_t granules = bytes / granule + (bytes % granule != 0);
	uint64_t words = bitmap_words(granules);
	struct bitmap *bitmap;

	assert(granule && !(granule & (granule - 1)));
	if (words > (SIZE_MAX - sizeof(*bitmap)) / sizeof(bitmap->bits[0]))
		return NULL;
	bitmap = calloc(1, sizeof(*bitmap) + (size_t)words * sizeof(bitmap->bits[0]));
	if (!bitmap)
		return NULL;
	atomic_init(&bitmap->covered, bytes);
	bitmap->shift = (unsigned int)__builtin_ctzll(granule);
	bitmap->granules = granules;
	return bitmap;
}

void
bitmap_copy(struct bitmap *bitmap, const struct bitmap *from)
{
	assert(bitmap->granules == from->granules && bitmap->shift == from->shift);
	for (uint64_t word = 0; word < bitmap_words(from->granules); word++) {
		uint64_t bits = atomic_load_explicit(&from->bits[word], memory_order_relaxed);

		/* Memory without a mark stays untouched. */
		if (bits)
			atomic_store_explicit(&bitmap->bits[word], bits, memory_order_relaxed);
	}
	atomic_store(&bitmap->covered, atomic_load(&from->covered));
}

uint64_t
bitmap_granules(const struct bitmap *bitmap)
{
	return bitmap->granules;
}

uint64_t
bitmap_covered(const struct bitmap *bitmap)
{
	return atomic_load(&bitmap->covered);
}

/* Returns the bits of the granules from `first` to `last` that are in a word. */
static uint64_t
bitmap_mask(uint64_t word, uint64_t first, uint64_t last)
{
	uint64_t mask = ~UINT64_C(0);

	if (word == first / WORD_BITS)
		mask <<= first % WORD_BITS;
	if (word == last / WORD_BITS)
		mask &= ~UINT64_C(0) >> (WORD_BITS - 1 - last % WORD_BITS);
	return mask;
}

/* Most granules are marked already, and then the cache line is only read. */
void
bitmap_mark(struct bitmap *bitmap, uint64_t start, uint64_t end)
{
	uint64_t first = start >> bitmap->shift, last = (end - 1) >> bitmap->shift;

	if (first >= bitmap->granules)
		return;
	if (last >= bitmap->granules)
		last = bitmap->granules - 1;
	for (uint64_t word = first / WORD_BITS; word <= last / WORD_BITS; word++) {
		uint64_t mask = bitmap_mask(word, first, last);

		if ((atomic_load_explicit(&bitmap->bits[word], memory_order_relaxed) & mask) !=
		    mask)
			atomic_fetch_or(&bitmap->bits[word], mask);
	}
}

bool
bitmap_has(const struct bitmap *bitmap, uint64_t start, uint64_t end)
{
	uint64_t first = start >> bitmap->shift, last = (end - 1) >> bitmap->shift;

	if (first >= bitmap->granules)
		return true;
	if (last >= bitmap->granules)
		last = bitmap->granules - 1;
	for (uint64_t word = first / WORD_BITS; word <= last / WORD_BITS; word++) {
		uint64_t mask = bitmap_mask(word, first, last);

		if ((atomic_load(&bitmap->bits[word]) & mask) != mask)
			return false;
	}
	return true;
}

void
bitmap_read(const struct bitmap *bitmap, uint64_t first, size_t count, uint64_t *words)
{
	uint64_t all = bitmap_words(bitmap->granules);

	for (size_t i = 0; i < count; i++)
		words[i] = first + i < all ? atomic_load(&bitmap->bits[first + i]) : 0;
}

void
bitmap_add(struct bitmap *bitmap, uint64_t first, size_t count, const uint64_t *words)
{
	uint64_t all = bitmap_words(bitmap->granules);

	for (size_t i = 0; i < count && first + i < all; i++) {
		/* Memory without a mark stays untouched. */
		if (words[i])
			atomic_fetch_or(&bitmap->bits[first + i], words[i]);
	}
}

void
bitmap_limit(struct bitmap *bitmap, uint64_t bytes)
{
	uint64_t covered = atomic_load(&bitmap->covered);

	while (bytes < covered && !atomic_compare_exchange_weak(&bitmap->covered, &covered, bytes))
		;
}

/* Returns the first granule from `granule` on whose mark is not `marked`; if there is none up to
 * `last`, one after that, or .granules. */
static uint64_t
bitmap_find_other(const struct bitmap *bitmap, uint64_t granule, uint64_t last, bool marked)
{
	while (granule < bitmap->granules && granule <= last) {
		uint64_t bits = atomic_load(&bitmap->bits[granule / WORD_BITS]);
		uint64_t others = (marked ? ~bits : bits) >> granule % WORD_BITS;

		if (others) {
			granule += (uint64_t)__builtin_ctzll(others);
			break;
		}
		granule += WORD_BITS - granule % WORD_BITS;
	}
	return granule < bitmap->granules ? granule : bitmap->granules;
}

bool
bitmap_run(const struct bitmap *bitmap, uint64_t start, uint64_t limit, uint64_t *end)
{
	uint64_t covered = atomic_load(&bitmap->covered);
	uint64_t granule = start >> bitmap->shift, last = (limit - 1) >> bitmap->shift, other;
	bool marked;

	*end = limit;
	if (start >= covered)
		return true;
	marked = atomic_load(&bitmap->bits[granule / WORD_BITS]) >> granule % WORD_BITS & 1;
	other = bitmap_find_other(bitmap, granule + 1, last, marked);
	if (other <= last && other < bitmap->granules && other << bitmap->shift < covered)
		covered = other << bitmap->shift;
	else if (marked)
		return true; /* as is all that is beyond */
	if (covered < limit)
		*end = covered;
	return marked;
}
