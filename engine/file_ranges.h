/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ranges of a file or device that are being changed: one range lock for all images of this process that have it
 * behind them, so that a block isn't changed through two of them at once.
 */
#ifndef ENGINE_FILE_RANGES_H
#define ENGINE_FILE_RANGES_H

#include "engine/range.h"

struct backing;

/* The range lock of what this is; its ranges count from the start of the file.  Given back by file_ranges_put().
 * NULL: out of memory. */
struct range_lock *
file_ranges_get(const struct backing *backing);

/* NULL is fine. */
void
file_ranges_put(struct range_lock *ranges);

#endif
