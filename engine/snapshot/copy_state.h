/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a copy, and what its parts share: its granules, and who copies them. All others
 * include copy.h.
 */
#ifndef ENGINE_SNAPSHOT_COPY_STATE_H
#define ENGINE_SNAPSHOT_COPY_STATE_H

#include "engine/backing/kind.h"
#include "engine/snapshot/scratch.h"
#include "engine/snapshot/source.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Granules that a thread copies, and that no other thread may copy meanwhile. */
struct copy_claim {
	uint64_t first, end; /* granules */
	struct copy_claim *next;
};

/* The least size of a granule, in bytes: that of a page, and of most writes. A file that needs
 * larger blocks for direct I/O has larger granules. */
#define COPY_GRANULE 4096

struct copy {
	/* Constant after copy_init(). */
	char *name; /* for messages */
	struct source source;
	uint64_t start, end;  /* the part of the file, in bytes */
	unsigned int granule; /* bytes, a power of 2 */
	struct scratch scratch;
	_Atomic uint64_t *copied; /* a bit for each granule, from that of .start on */

	_Atomic bool broken;
	pthread_mutex_t mutex; /* guards the members below */
	pthread_cond_t released;
	char reason[REASON_MAX];   /* why it is broken, or "" */
	struct copy_claim *claims; /* granules that are being copied */
};

static inline uint64_t
copy_granule_at(const struct copy *copy, uint64_t place)
{
	return place / copy->granule - copy->start / copy->granule;
}

/* The place of a granule in the file. The first one may begin before .start. */
static inline uint64_t
copy_place_of(const struct copy *copy, uint64_t granule)
{
	return (granule + copy->start / copy->granule) * copy->granule;
}

/* Returns the end of the granules from `first` on, at most `end`, that are all copied or all not,
 * and sets *copied. Takes 64 granules at once where it can: a hole may have millions. */
uint64_t
copy_run_end(const struct copy *copy, uint64_t first, uint64_t end, bool *copied);

/* Claims the granules of a range of the file, if none of them is copied or claimed. Never waits.
 * Returns whether it did; then *claim must stay where it is until copy_release(). */
bool
copy_claim_at_once(struct copy *copy, uint64_t start, uint64_t end, struct copy_claim *claim);

/* The bytes of the file that are to be copied for a claim. */
void
copy_claimed_bytes(const struct copy *copy, const struct copy_claim *claim, uint64_t *from,
		   uint64_t *to);

/* Writes the bytes of claimed granules to the scratch file and marks the granules, or breaks the
 * copy. May wait for the disk. */
void
copy_store(struct copy *copy, const struct copy_claim *claim, const char *bytes);

void
copy_release(struct copy *copy, const struct copy_claim *claims, size_t count);

/* Returns false, and the copy is broken. */
bool
copy_read_source(struct copy *copy, bool direct, void *buffer, size_t length, uint64_t offset);

void
copy_break_by_scratch(struct copy *copy, int err);

#endif
