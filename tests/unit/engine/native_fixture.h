/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Backings of this process that keep checkpoints by themselves, and a set of these.
 */
#ifndef TESTS_UNIT_ENGINE_NATIVE_FIXTURE_H
#define TESTS_UNIT_ENGINE_NATIVE_FIXTURE_H

#include "engine/backing/kind.h"
#include "engine/changes/checkpoint.h"
#include "engine/changes/checkpoint_list.h"
#include "engine/io/image_state.h"

#define KIB   UINT64_C(1024)
#define START (64 * KIB) /* of the image in its backing */

/* What a backing keeps. */
struct kept {
	struct backing_checkpoint list[CHECKPOINTS_MAX + 2];
	size_t count;
	uint64_t edition;
	uint64_t last_id;
};

struct fake_native {
	struct kept first, second;    /* of two backings */
	uint64_t asked, asked_length; /* of the last question for changes */
	uint64_t runs[4][2];          /* what has changed: start and end */
	size_t run_count;
	int result;    /* of the questions, making and removing: 0 or -errno */
	size_t thrown; /* snapshots that were freed, and not kept */
};

extern struct fake_native fake;

/* The image of the first backing, open for writing, and its set. */
extern struct image native_image;
extern struct checkpoints *set;

void
begin_test(void);
void
end_test(void);

/* Adds a checkpoint to a backing, as another process does, and takes one away. */
void
add_to(struct kept *kept, const char *name, uint64_t size);
void
take_out(struct kept *kept, uint64_t id);

/* The n-th checkpoint of the set. The caller releases it. */
struct checkpoint *
hold(size_t n);

#endif
