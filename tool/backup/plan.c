/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/backup/plan.h"

GArray *
plan_new(void)
{
	return g_array_new(FALSE, FALSE, sizeof(struct part));
}

const struct part *
plan_part(GArray *plan, guint index)
{
	return &g_array_index(plan, struct part, index);
}

void
plan_add(GArray *plan, uint64_t offset, uint64_t length, bool zero)
{
	const struct part part = {.offset = offset, .length = length, .zero = zero};
	struct part *last = plan->len ? &g_array_index(plan, struct part, plan->len - 1) : NULL;

	if (!length)
		return;
	if (last && last->zero == zero && last->offset + last->length == offset)
		last->length += length;
	else
		g_array_append_val(plan, part);
}

uint64_t
plan_bytes(GArray *plan, bool zero)
{
	uint64_t bytes = 0;

	for (guint i = 0; i < plan->len; i++) {
		if (plan_part(plan, i)->zero == zero)
			bytes += plan_part(plan, i)->length;
	}
	return bytes;
}

GArray *
plan_of_all(GArray *plan, uint64_t size)
{
	GArray *all = plan_new();
	uint64_t end = 0;

	for (guint i = 0; i < plan->len; i++) {
		const struct part part = *plan_part(plan, i);

		plan_add(all, end, part.offset - end, true);
		g_array_append_val(all, part);
		end = part.offset + part.length;
	}
	plan_add(all, end, size - end, true);
	return all;
}

GArray *
plan_bridged(GArray *plan, uint64_t gap)
{
	GArray *bridged = plan_new();
	uint64_t end = 0;

	for (guint i = 0; i < plan->len; i++) {
		const struct part *part = plan_part(plan, i);

		if (i && part->offset - end <= gap)
			plan_add(bridged, end, part->offset - end, false);
		plan_add(bridged, part->offset, part->length, false);
		end = part->offset + part->length;
	}
	return bridged;
}

void
plan_add_common(GArray *plan, GArray *told, GArray *wanted)
{
	guint t = 0, w = 0;

	while (t < told->len && w < wanted->len) {
		const struct part *a = plan_part(told, t), *b = plan_part(wanted, w);
		const uint64_t a_end = a->offset + a->length, b_end = b->offset + b->length,
			       begin = MAX(a->offset, b->offset), end = MIN(a_end, b_end);

		if (begin < end)
			plan_add(plan, begin, end - begin, a->zero);
		if (a_end <= b_end)
			t++;
		if (b_end <= a_end)
			w++;
	}
}

/* Adds the bytes of a part from `begin` to `end`, as they are. */
static void
plan_add_slice(GArray *plan, const struct part *part, uint64_t begin, uint64_t end)
{
	struct part slice = *part;

	if (begin >= end)
		return;
	slice.offset = begin;
	slice.length = end - begin;
	if (part->position)
		slice.skip += (uint32_t)(begin - part->offset);
	g_array_append_val(plan, slice);
}

GArray *
plan_overlay(GArray *newer, GArray *older)
{
	GArray *plan = plan_new();
	guint n = 0;

	for (guint o = 0; o < older->len; o++) {
		const struct part *below = plan_part(older, o);
		const uint64_t end = below->offset + below->length;
		uint64_t begin = below->offset;

		/* The last one may reach into this part. */
		if (n)
			begin = MAX(begin, plan_part(newer, n - 1)->offset +
						   plan_part(newer, n - 1)->length);
		/* Newer parts that begin before this one ends: they, and what is left between. */
		for (; n < newer->len && plan_part(newer, n)->offset < end; n++) {
			const struct part *above = plan_part(newer, n);

			plan_add_slice(plan, below, begin, above->offset);
			g_array_append_val(plan, *above);
			begin = MAX(begin, above->offset + above->length);
		}
		plan_add_slice(plan, below, begin, end);
	}
	for (; n < newer->len; n++)
		g_array_append_val(plan, *plan_part(newer, n));
	return plan;
}

bool
plan_next(GArray *plan, struct plan_cursor *cursor, uint64_t zero_max, struct part *piece)
{
	const struct part *part;

	if (cursor->index >= plan->len)
		return false;
	part = plan_part(plan, cursor->index);
	*piece = *part;
	piece->offset += cursor->done;
	/* A record stays whole, since its checksum is that of all its data. */
	if (!part->position)
		piece->length =
			MIN(part->length - cursor->done, part->zero ? zero_max : PLAN_DATA_MAX);
	cursor->done += piece->length;
	if (cursor->done == part->length)
		*cursor = (struct plan_cursor){.index = cursor->index + 1};
	return true;
}
