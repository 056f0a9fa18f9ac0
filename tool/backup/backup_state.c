/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/backup/backup_state.h"

#include "tool/backup/durable.h"
#include "tool/failure.h"

#include "common/cleanup.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FORMAT   1
#define TEXT_MAX (64 << 10) /* bytes: URIs and names have at most some thousands */

void
backup_state_fini(struct backup_state *state)
{
	g_free(state->source);
	g_free(state->target);
	g_free(state->bitmap);
	*state = (struct backup_state){.source = NULL};
}

void
backup_state_new_id(uint8_t id[DELTA_ID_SIZE])
{
	if (getentropy(id, DELTA_ID_SIZE) == 0)
		return;
	for (int i = 0; i < DELTA_ID_SIZE; i++)
		id[i] = (uint8_t)g_random_int();
}

/* ---- text */

static bool
id_from_text(const char *text, uint8_t id[DELTA_ID_SIZE])
{
	if (strlen(text) != 2 * DELTA_ID_SIZE)
		return false;
	for (int i = 0; i < DELTA_ID_SIZE; i++) {
		const int high = g_ascii_xdigit_value(text[2 * i]),
			  low = g_ascii_xdigit_value(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		id[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

char *
backup_state_text(const struct backup_state *state)
{
	char id[2 * DELTA_ID_SIZE + 1], *text;
	json_t *object;

	for (int i = 0; i < DELTA_ID_SIZE; i++)
		g_snprintf(id + 2 * (size_t)i, 3, "%02x", state->id[i]);
	object = json_pack("{si ss ss* ss* sI sb ss sI sI sI}", "nbdloop-backup", FORMAT, "source",
			   state->source, "target", state->target, "bitmap", state->bitmap, "size",
			   (json_int_t)state->size, "complete", (int)state->complete, "id", id,
			   "seconds", (json_int_t)state->seconds, "modified",
			   (json_int_t)state->modified, "applying", (json_int_t)state->applying);
	text = object ? json_dumps(object, JSON_INDENT(3)) : NULL;
	json_decref(object);
	return text;
}

/* Whether the members are there; the texts are the object's. */
static bool
take_members(json_t *object, struct backup_state *state)
{
	const char *source, *id, *target = NULL, *bitmap = NULL;
	json_int_t size, seconds, modified, applying = 0;
	int complete;

	if (json_unpack(object, "{ss s?s s?s sI sb ss sI sI s?I}", "source", &source, "target",
			&target, "bitmap", &bitmap, "size", &size, "complete", &complete, "id", &id,
			"seconds", &seconds, "modified", &modified, "applying", &applying) != 0 ||
	    size < 0 || !id_from_text(id, state->id))
		return false;
	state->source = g_strdup(source);
	state->target = g_strdup(target);
	state->bitmap = g_strdup(bitmap);
	state->size = (uint64_t)size;
	state->complete = complete;
	state->seconds = (uint64_t)seconds;
	state->modified = modified;
	state->applying = applying;
	return true;
}

bool
backup_state_parse(struct backup_state *state, const char *text, GError **error)
{
	json_t *object = json_loads(text, 0, NULL);
	const json_int_t format = json_integer_value(json_object_get(object, "nbdloop-backup"));
	bool good = format == FORMAT && take_members(object, state);

	json_decref(object);
	if (good)
		return true;
	if (format > FORMAT)
		return failure(error, EBADMSG,
			       "it is of a later nbdloop (format %d), and this one knows only "
			       "format %d",
			       (int)format, FORMAT);
	return failure(error, EBADMSG, "it is no state of a backup");
}

/* ---- files */

bool
backup_state_read(struct backup_state *state, const char *path, GError **error)
{
	g_autofree char *text = durable_read(path, TEXT_MAX, error);

	if (!text)
		return false;
	if (backup_state_parse(state, text, error))
		return true;
	g_prefix_error(error, "%s: ", path);
	return false;
}

bool
backup_state_write(const struct backup_state *state, const char *path, GError **error)
{
	char *CLEANUP_FREE text = backup_state_text(state);
	g_autofree char *line = g_strconcat(text ? text : "", "\n", NULL);

	if (!text)
		return failure(error, EINVAL, "%s: a name in it is not UTF-8", path);
	return durable_write(path, line, 0600, error);
}

static int64_t
modified_at(const struct stat *st)
{
	return st->st_mtim.tv_sec * INT64_C(1000000000) + st->st_mtim.tv_nsec;
}

void
backup_state_note_file(struct backup_state *state, const struct stat *st)
{
	state->modified = modified_at(st);
	state->applying = 0;
}

bool
backup_state_is_of_file(const struct backup_state *state, const struct stat *st)
{
	return state->modified == modified_at(st) && state->size == (uint64_t)st->st_size;
}
