/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a checkpoint tells of one byte, and of the run that begins there.
 */
#ifndef TESTS_UNIT_ENGINE_CHANGED_RUN_H
#define TESTS_UNIT_ENGINE_CHANGED_RUN_H

#include "engine/changes/checkpoint.h"

struct changed_run {
	uint64_t end;
	bool changed;
};

static inline int
changed_run_visit(void *data, uint64_t offset, uint64_t length, bool changed)
{
	*(struct changed_run *)data = (struct changed_run){offset + length, changed};
	return 1;
}

/* Returns whether the byte at `start` has changed, or what checkpoint_visit() returns in place of
 * runs; sets *end, at most `limit` (> start), to the end of the run. */
static inline int
changed_run(const struct checkpoint *checkpoint, uint64_t start, uint64_t limit, uint64_t *end)
{
	struct changed_run run = {0};
	int r = checkpoint_visit(checkpoint, start, limit - start, changed_run_visit, &run);

	*end = run.end;
	return r == 1 ? run.changed : r;
}

/* Returns 0, or what the checkpoint tells in place of runs. */
static inline int
changed_run_error(const struct checkpoint *checkpoint)
{
	uint64_t end;
	int r = changed_run(checkpoint, 0, 1, &end);

	return r < 0 ? r : 0;
}

#endif
