/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/verb/layer_show.h"

#include "tool/show/output.h"

#include "common/unit.h"

#include <stdio.h>

static const char *const troubles[] = {
	[LAYER_UNTIDY] = "to do",
	[LAYER_UNKNOWN] = "not checked",
	[LAYER_DAMAGED] = "damage",
};

size_t
layer_show_count(const struct layer_report *report, enum layer_trouble trouble)
{
	size_t count = 0;

	for (size_t i = 0; i < report->finding_count; i++)
		count += report->findings[i].trouble == trouble;
	return count;
}

/* ---- words */

static const char *
layer_type(const struct layer_part *part)
{
	return part->layer ? "layer" : part->block_device ? "device" : "raw";
}

static const char *const endings[] = {
	[LAYER_ENDED] = "ended",
	[LAYER_OPEN] = "killed",
	[LAYER_CUT] = "power-cut",
	[LAYER_SYNC_FAILED] = "sync-failed",
};

static const char *
layer_state_name(const struct layer_part *part)
{
	return part->header.state == LAYER_SEALED       ? "sealed"
	       : part->header.state == LAYER_COMMITTING ? "committing"
							: "writable";
}

static const char *
layer_state_text(const struct layer_part *part)
{
	static const char *const texts[] = {
		[LAYER_ENDED] = "writable",
		[LAYER_OPEN] = "writable; its server was killed",
		[LAYER_CUT] = "writable; power was cut while it had a server",
		[LAYER_SYNC_FAILED] = "writable; a sync has failed",
	};

	if (part->busy)
		return "in use by a server";
	return part->header.state == LAYER_WRITABLE ? texts[part->ending] : layer_state_name(part);
}

/* "40960 (40k)", or only the number. */
static const char *
layer_size_text(uint64_t bytes, char text[96])
{
	char size[UNIT_SIZE_TEXT];

	unit_format_size(bytes, size);
	if (bytes % 1024 == 0 && bytes > 0)
		g_snprintf(text, 96, "%" G_GUINT64_FORMAT " (%s)", bytes, size);
	else
		g_snprintf(text, 96, "%" G_GUINT64_FORMAT, bytes);
	return text;
}

static void
layer_id_text(const struct layer_id *id, char text[2 * sizeof(struct layer_id) + 1])
{
	for (size_t i = 0; i < sizeof(id->bytes); i++)
		g_snprintf(text + 2 * i, 3, "%02x", id->bytes[i]);
}

/* ---- JSON */

static json_t *
layer_findings_json(const struct layer_report *report)
{
	static const char *const names[] = {
		[LAYER_UNTIDY] = "untidy",
		[LAYER_UNKNOWN] = "unknown",
		[LAYER_DAMAGED] = "damaged",
	};
	json_t *list = json_array();

	for (size_t i = 0; i < report->finding_count; i++) {
		g_autofree char *text = g_utf8_make_valid(report->findings[i].text, -1);

		json_array_append_new(list,
				      json_pack("{ss ss}", "kind",
						names[report->findings[i].trouble], "text", text));
	}
	return list;
}

static json_t *
layer_part_json(const struct layer_part *part, bool top)
{
	g_autofree char *name = g_utf8_make_valid(part->name, -1);
	g_autofree char *path = part->path ? g_utf8_make_valid(part->path, -1) : NULL;
	char id[2 * sizeof(struct layer_id) + 1];
	json_t *object =
		json_pack("{ss ss? ss}", "name", name, "path", path, "type", layer_type(part));

	if (!part->path)
		return object;
	if (!top)
		json_object_set_new(object, "matches", json_boolean(part->matches));
	json_object_set_new(object, "size", json_integer((json_int_t)part->size));
	json_object_set_new(object, "allocated", json_integer((json_int_t)part->allocated));
	if (!part->layer)
		return object;
	layer_id_text(&part->header.id, id);
	json_object_set_new(object, "state", json_string(layer_state_name(part)));
	json_object_set_new(object, "in-use", json_boolean(part->busy));
	if (part->header.state == LAYER_WRITABLE && !part->busy)
		json_object_set_new(object, "ending", json_string(endings[part->ending]));
	json_object_set_new(object, "id", json_string(id));
	json_object_set_new(object, "granule", json_integer((json_int_t)part->header.granule));
	json_object_set_new(object, "held", json_integer((json_int_t)part->held));
	json_object_set_new(object, "unkept", json_integer((json_int_t)part->recent));
	return object;
}

static void
layer_show_json(const struct layer_report *report, bool chain)
{
	json_t *object = json_object(), *parts = json_array();

	for (unsigned int i = 0; i < report->count; i++)
		json_array_append_new(parts, layer_part_json(&report->parts[i], i == 0));
	if (chain)
		json_object_set(object, "chain", parts);
	json_object_set_new(object, "findings", layer_findings_json(report));
	output_json(stdout, object, true);
	json_decref(parts);
	json_decref(object);
}

/* ---- text */

static void
layer_print_findings(const struct layer_report *report)
{
	for (size_t i = 0; i < report->finding_count; i++) {
		g_autofree char *text = output_plain(report->findings[i].text, false);

		printf("%s: %s\n", troubles[report->findings[i].trouble], text);
	}
}

static void
layer_print_part(const struct layer_part *part, bool top)
{
	g_autofree char *name = output_plain(part->name, false);
	g_autofree char *path = part->path ? output_plain(part->path, false) : NULL;
	char text[96], id[2 * sizeof(struct layer_id) + 1];

	printf("%s: %s\n", layer_type(part), name);
	if (!path)
		return;
	printf("    path:      %s\n", path);
	printf("    size:      %s\n", layer_size_text(part->size, text));
	if (!part->block_device)
		printf("    allocated: %s\n", layer_size_text(part->allocated, text));
	if (!top)
		printf("    as base:   %s\n",
		       part->matches ? "unchanged" : "another one, or changed");
	if (!part->layer)
		return;
	layer_id_text(&part->header.id, id);
	printf("    holds:     %s\n", layer_size_text(part->held, text));
	printf("    granule:   %s\n", layer_size_text(part->header.granule, text));
	printf("    state:     %s\n", layer_state_text(part));
	printf("    identity:  %s\n", id);
}

void
layer_show_info(const struct layer_report *report, bool json)
{
	if (json) {
		layer_show_json(report, true);
		return;
	}
	for (unsigned int i = 0; i < report->count; i++)
		layer_print_part(&report->parts[i], i == 0);
	layer_print_findings(report);
}

void
layer_show_check(const struct layer_report *report, bool json)
{
	if (json)
		layer_show_json(report, false);
	else
		layer_print_findings(report);
	/* Before the message that follows on the other stream. */
	fflush(stdout);
}
