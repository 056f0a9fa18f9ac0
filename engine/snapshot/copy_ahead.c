/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/snapshot/copy_ahead.h"

#include "engine/snapshot/copy_state.h"

#include "common/cleanup.h"

#include <stdlib.h>

/* Returns how many of the ranges are claimed. */
static unsigned int
claim_all(struct copy *copy, const struct ahead_range *ranges, unsigned int count,
	  struct copy_claim *claims)
{
	unsigned int claimed = 0;

	for (unsigned int i = 0; i < count; i++)
		claimed +=
			copy_claim_at_once(copy, ranges[i].start, ranges[i].end, &claims[claimed]);
	return claimed;
}

/* Sets the parts of the file that are to be read for the claims, and returns the bytes that they
 * need in the buffer. */
static size_t
make_parts(const struct copy *copy, const struct copy_claim *claims, unsigned int count,
	   struct part *parts)
{
	size_t bytes = 0;

	for (unsigned int i = 0; i < count; i++) {
		uint64_t from, to;

		copy_claimed_bytes(copy, &claims[i], &from, &to);
		parts[i] = (struct part){.length = (size_t)(to - from), .offset = from};
		bytes += (size_t)(claims[i].end - claims[i].first) * copy->granule;
	}
	return bytes;
}

/* Gives each part its place in the buffer, which begins at a multiple of the granule. */
static void
place_parts(const struct copy *copy, const struct copy_claim *claims, unsigned int count,
	    struct part *parts, char *buffer)
{
	for (unsigned int i = 0; i < count; i++) {
		parts[i].buffer = buffer;
		parts[i].direct = source_takes_direct(&copy->source, buffer, parts[i].length,
						      parts[i].offset);
		buffer += (claims[i].end - claims[i].first) * copy->granule;
	}
}

void
copy_ahead(struct copy *copy, struct part_reads *reads, const struct ahead_range *ranges,
	   unsigned int count)
{
	struct copy_claim claims[AHEAD_CHANGES];
	struct part parts[AHEAD_CHANGES];
	unsigned int claimed = claim_all(copy, ranges, count, claims);
	size_t bytes = make_parts(copy, claims, claimed, parts);
	void *CLEANUP_FREE buffer = NULL;

	if (claimed > 0 && posix_memalign(&buffer, copy->granule, bytes) == 0) {
		place_parts(copy, claims, claimed, parts, buffer);
		part_reads_run(reads, copy->source.backing.direct_fd, parts, claimed);
	}
	for (unsigned int i = 0; i < claimed; i++) {
		if (parts[i].read)
			copy_store(copy, &claims[i], parts[i].buffer);
	}
	copy_release(copy, claims, claimed);
}
