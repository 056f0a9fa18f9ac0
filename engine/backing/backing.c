/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backing/backing.h"

#include "engine/backing/kind.h"

void
backing_close(struct backing *backing)
{
	backing->kind->close(backing);
}

int64_t
backing_size(const struct backing *backing)
{
	return backing->kind->size(backing);
}

bool
backing_same(const struct backing *a, const struct backing *b)
{
	return a->kind == b->kind && a->kind->same(a, b);
}
