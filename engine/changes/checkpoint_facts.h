/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The facts that are told of a checkpoint, and its limits.
 */
#ifndef ENGINE_CHANGES_CHECKPOINT_FACTS_H
#define ENGINE_CHANGES_CHECKPOINT_FACTS_H

#include <stdbool.h>
#include <stdint.h>

/* Longest name, in bytes. */
#define CHECKPOINT_NAME_MAX 128

/* The most checkpoints that an image has at once. */
#define CHECKPOINTS_MAX 32

/* Bytes of a granule: a power of 2. */
#define CHECKPOINT_GRANULE     UINT64_C(65536) /* the usual one */
#define CHECKPOINT_GRANULE_MIN UINT64_C(4096)
#define CHECKPOINT_GRANULE_MAX UINT64_C(1048576)

struct checkpoint_facts {
	uint32_t id; /* never 0 or 1, and of no other checkpoint in this process */
	char name[CHECKPOINT_NAME_MAX + 1];
	uint64_t granule; /* in bytes */
	int64_t begun;    /* seconds since 1970 */
	bool unknown;     /* what has changed since; so are all of the set: checkpoints_problem() */
};

/* Gets a run of the image that has changed since a checkpoint, or has not; in bytes. Any result
 * but 0 ends the visit. */
typedef int (*change_visit)(void *data, uint64_t offset, uint64_t length, bool changed);

/* Returns whether this is a name: 1 to CHECKPOINT_NAME_MAX letters, digits and "+-.:_". */
bool
checkpoint_name_is_valid(const char *name);

#endif
