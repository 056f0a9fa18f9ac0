/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plan of a copy: which parts of an image are data, and which are zeroes.  What is in no part
 * is left alone.
 */
#ifndef TOOL_BACKUP_PLAN_H
#define TOOL_BACKUP_PLAN_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define PLAN_DATA_MAX (512 << 10) /* bytes that one request reads or writes */
#define PLAN_ZERO_MAX (32 << 20)  /* bytes that one request zeroes: servers may do it by writing */

struct part {
	uint64_t offset, length; /* bytes of the image */
	bool zero;               /* it reads as zeroes */

	/* Of a delta's record with data, or of a part of it: */
	uint64_t position; /* of the record's data in the file; 0: this is no record */
	uint32_t checksum; /* of all the record's data */
	uint32_t record;   /* bytes of all its data */
	uint32_t skip;     /* bytes of the data before this part */
	uint32_t layer;    /* which of several deltas (merge.h) */
};

/* An empty plan: struct part by their offsets, without overlaps.  Caller frees (g_array_unref). */
GArray *
plan_new(void);

/* Adds what comes next, and joins it with the last part if that is adjacent and of its kind. */
void
plan_add(GArray *plan, uint64_t offset, uint64_t length, bool zero);

const struct part *
plan_part(GArray *plan, guint index);

/* Bytes of its data, or of its zeroes. */
uint64_t
plan_bytes(GArray *plan, bool zero);

/* The plan, and zeroes for all that is in none of its parts; `size`: of the image, bytes.  Caller
 * frees (g_array_unref). */
GArray *
plan_of_all(GArray *plan, uint64_t size);

/* The plan with gaps of at most `gap` bytes between two of its parts filled, as if all were data.
 * Caller frees (g_array_unref). */
GArray *
plan_bridged(GArray *plan, uint64_t gap);

/* Adds to `plan` the parts of `told` as far as they are in a part of `wanted`. */
void
plan_add_common(GArray *plan, GArray *told, GArray *wanted);

/* The plan of `newer`, and what is only in `older`.  Caller frees (g_array_unref). */
GArray *
plan_overlay(GArray *newer, GArray *older);

/* Where a copy has come to; all 0 at the beginning. */
struct plan_cursor {
	guint index;   /* of the part */
	uint64_t done; /* bytes of it */
};

/* The next piece, which one request copies: of at most PLAN_DATA_MAX bytes of data (a record of a
 * delta is one piece), or `zero_max` bytes of zeroes.  False: there is none. */
bool
plan_next(GArray *plan, struct plan_cursor *cursor, uint64_t zero_max, struct part *piece);

#endif
