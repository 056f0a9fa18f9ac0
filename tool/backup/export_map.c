/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a server tells about the blocks of an export: which are holes, and which have changed.
 */
#include "tool/backup/export_end.h"
#include "tool/backup/export_end_state.h"
#include "tool/failure.h"

#include "common/log.h"

#include <errno.h>

#define AT_ONCE                                                                                    \
	(UINT64_C(1) << 31) /* bytes that one request asks about: a whole number of blocks */

/* Bytes between two parts that it's better to ask about, too: each question takes a round trip. */
#define GAP_MAX (UINT64_C(64) << 20)

/* Bounds for what a server may tell, so that one that means harm neither fills the memory nor keeps
 * a backup busy for ever. */
#define GRAIN         4096      /* bytes: a shorter part is no hole, and no part without changes */
#define PARTS_MAX     (1 << 24) /* of a plan: what comes after them is data, or changed */
#define SHORT_ANSWERS (1 << 16) /* that tell of less than a grain, though more was asked about */

#define FLAG_ZERO     2 /* of base:allocation */
#define FLAG_DIRTY    1 /* of a dirty bitmap */

/* Gets what the server tells of a part of the image, from its beginning on. */
typedef void (*take_range)(uint64_t offset, uint64_t length, uint32_t flags, GArray *plan);

/* Whether a part may be left out of what is copied: it is safe to copy too much. */
static bool
is_kept_apart(uint64_t length, const GArray *plan)
{
	return length >= GRAIN && plan->len < PARTS_MAX;
}

static void
take_changed(uint64_t offset, uint64_t length, uint32_t flags, GArray *plan)
{
	if ((flags & FLAG_DIRTY) || !is_kept_apart(length, plan))
		plan_add(plan, offset, length, false);
}

static void
take_allocated(uint64_t offset, uint64_t length, uint32_t flags, GArray *plan)
{
	plan_add(plan, offset, length, (flags & FLAG_ZERO) && is_kept_apart(length, plan));
}

/* Returns how many bytes the entries cover; the last one may be longer than what was asked for. */
static uint64_t
take_entries(const struct map_request *map, take_range take, GArray *plan)
{
	const struct part *piece = &map->request.piece;
	uint64_t covered = 0;

	for (guint i = 0; i + 1 < map->entries->len && covered < piece->length; i += 2) {
		const uint64_t length =
			MIN(g_array_index(map->entries, uint32_t, i), piece->length - covered);

		take(piece->offset + covered, length, g_array_index(map->entries, uint32_t, i + 1),
		     plan);
		covered += length;
	}
	return covered;
}

/* All of a range, in as many requests as the server wants. */
static bool
map_range(struct export_end *export, struct map_request *map, const struct part *range,
	  take_range take, GArray *plan, GError **error)
{
	uint64_t offset = range->offset, length = range->length;

	while (length) {
		uint64_t covered;

		map->request.piece =
			(struct part){.offset = offset, .length = MIN(length, AT_ONCE)};
		if (!export_end_ask(export, &map->request, error))
			return false;
		covered = take_entries(map, take, plan);
		if (!covered)
			return failure(error, EPROTO,
				       "%s: the server tells nothing of %s at %" G_GUINT64_FORMAT,
				       export->options.uri, map->context, offset);
		if (covered < MIN(length, GRAIN) && ++map->short_answers > SHORT_ANSWERS)
			return failure(
				error, EPROTO,
				"%s: the server told of fewer than %d bytes of %s in each of %d "
				"answers: its map would take for ever",
				export->options.uri, GRAIN, map->context, SHORT_ANSWERS);
		offset += covered;
		length -= covered;
	}
	return true;
}

static bool
map_ranges(struct export_end *export, const char *context, GArray *ranges, take_range take,
	   GArray *plan, GError **error)
{
	struct map_request map = {
		.request.operation = END_MAP,
		.context = context,
		.entries = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
	};
	bool done = true;

	for (guint i = 0; i < ranges->len && done; i++)
		done = map_range(export, &map, plan_part(ranges, i), take, plan, error);
	g_array_unref(map.entries);
	if (plan->len >= PARTS_MAX)
		log_warning("%s: its map of %s has over %d parts; what comes after them is copied "
			    "as a whole",
			    export->options.uri, context, PARTS_MAX);
	return done;
}

bool
export_end_changed(struct end *end, const char *bitmap, GArray *plan, GError **error)
{
	struct export_end *export = (struct export_end *)end;
	g_autofree char *context = g_strconcat(BITMAP_CONTEXT, bitmap, NULL);
	g_autoptr(GArray) all = plan_new();

	plan_add(all, 0, export->size, false);
	return map_ranges(export, context, all, take_changed, plan, error);
}

bool
export_end_allocated(struct end *end, GArray *wanted, GArray *plan, GError **error)
{
	struct export_end *export = (struct export_end *)end;
	g_autoptr(GArray) asked = NULL;
	g_autoptr(GArray) told = NULL;

	if (!export->tells_allocation) {
		for (guint i = 0; i < wanted->len; i++)
			plan_add(plan, plan_part(wanted, i)->offset, plan_part(wanted, i)->length,
				 false);
		return true;
	}
	asked = plan_bridged(wanted, GAP_MAX);
	told = plan_new();
	if (!map_ranges(export, CONTEXT_BASE, asked, take_allocated, told, error))
		return false;
	plan_add_common(plan, told, wanted);
	return true;
}
