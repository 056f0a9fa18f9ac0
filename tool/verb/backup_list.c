/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/verb/backup_list.h"

#include "tool/backup/backup_date.h"
#include "tool/backup/backup_state.h"
#include "tool/backup/chain.h"
#include "tool/backup/delta_end.h"
#include "tool/backup/durable.h"
#include "tool/failure.h"
#include "tool/show/cells.h"
#include "tool/show/output.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* What the table shows; JSON has more.  The last one is only there if the backups were verified. */
static const struct list_column {
	const char *name, *member;
	bool right; /* aligned to the right, as numbers are */
} list_columns[] = {
	{"NUMBER", "number", true}, {"DATE", "date", false}, {"SIZE", "size", true},
	{"BASE", "base", true},     {"FILE", "file", false}, {"STATE", "state", false},
};

#define LIST_COLUMNS G_N_ELEMENTS(list_columns)

static char *
list_cell(const struct list_column *column, json_t *backup)
{
	json_t *value = json_object_get(backup, column->member);

	/* A table is for people of this machine; programs need the time zone. */
	if (g_str_equal(column->member, "date"))
		return backup_date_text(
			(uint64_t)json_integer_value(json_object_get(backup, "seconds")));
	return cells_text(value, false);
}

static void
list_print(json_t *backups, bool verified)
{
	g_autoptr(GPtrArray) rows = g_ptr_array_new_with_free_func((GDestroyNotify)g_strfreev);
	const size_t columns = verified ? LIST_COLUMNS : LIST_COLUMNS - 1;
	bool right[LIST_COLUMNS];

	for (size_t i = 0; i <= json_array_size(backups); i++) {
		char **cells = g_new0(char *, LIST_COLUMNS + 1);

		for (size_t j = 0; j < columns; j++) {
			right[j] = list_columns[j].right;
			cells[j] = i == 0 ? g_strdup(list_columns[j].name)
					  : list_cell(&list_columns[j],
						      json_array_get(backups, i - 1));
		}
		g_ptr_array_add(rows, cells);
	}
	cells_print(stdout, rows, right, false);
}

/* Adds a name of others' that JSON can hold; NULL: null. */
static void
list_set_text(json_t *backup, const char *member, const char *text)
{
	g_autofree char *valid = text ? g_utf8_make_valid(text, -1) : NULL;

	json_object_set_new(backup, member, valid ? json_string(valid) : json_null());
}

/* `base`: NULL, it is a full backup. */
static json_t *
list_chain_object(const struct chain_link *link, const struct chain_link *base)
{
	g_autofree char *date = backup_date_iso(link->header.seconds);
	json_t *backup = json_pack(
		"{sI so ss sI sI sI sI}", "number", (json_int_t)link->last, "base",
		base ? json_integer((json_int_t)base->last) : json_null(), "date", date, "seconds",
		(json_int_t)link->header.seconds, "size", (json_int_t)link->size, "data",
		(json_int_t)link->data, "image-size", (json_int_t)link->header.size);

	list_set_text(backup, "file", link->path);
	list_set_text(backup, "source", link->header.source);
	list_set_text(backup, "bitmap", *link->header.bitmap ? link->header.bitmap : NULL);
	return backup;
}

/* The links that restoring needs. */
static GPtrArray *
list_read_chain(const char *directory, GError **error)
{
	g_autoptr(GPtrArray) links = chain_read(directory, error);

	if (!links || !chain_read_ends(links, error))
		return NULL;
	chain_remove_merged(links);
	return g_steal_pointer(&links);
}

static json_t *
list_chain(GPtrArray *links)
{
	json_t *backups = json_array();

	for (guint i = 0; i < links->len; i++)
		json_array_append_new(backups, list_chain_object(links->pdata[i],
								 i ? links->pdata[i - 1] : NULL));
	return backups;
}

/* ---- verification */

/* Reads all data of a link.  *problem: what is wrong with it, or NULL (caller frees).  False with
 * an error: that is not known. */
static bool
list_verify_link(const struct chain_link *link, struct progress *progress, char **problem,
		 GError **error)
{
	g_autoptr(GError) why = NULL;
	int CLEANUP_CLOSE fd = chain_open(link, &why);

	*problem = NULL;
	if (fd >= 0 && delta_is_whole(fd, link->path, &link->header, true, progress, &why))
		return true;
	if (failure_is(why, EINTR) || failure_is(why, EBUSY))
		return failure_pass(error, &why);
	*problem = g_strdup(why->message);
	return true;
}

/* Gives each backup its state.  *first: the first one that cannot be restored; NULL: all can. */
static bool
list_verify(GPtrArray *links, json_t *backups, struct progress *progress,
	    const struct chain_link **first, GError **error)
{
	uint64_t bytes = 0;

	*first = NULL;
	for (guint i = 0; i < links->len; i++)
		bytes += ((const struct chain_link *)links->pdata[i])->data;
	progress_begin(progress, "verify", bytes);
	for (guint i = 0; i < links->len; i++) {
		const struct chain_link *link = links->pdata[i];
		json_t *backup = json_array_get(backups, i);
		g_autofree char *problem = NULL;

		if (!list_verify_link(link, progress, &problem, error)) {
			progress_fail(progress);
			return false;
		}
		if (problem && !*first)
			*first = link;
		json_object_set_new(backup, "state",
				    json_string(problem  ? "damaged"
						: *first ? "unusable"
							 : "ok"));
		if (problem)
			list_set_text(backup, "problem", problem);
	}
	progress_end(progress);
	return true;
}

static void
list_log_problems(json_t *backups)
{
	json_t *backup;
	size_t i;

	json_array_foreach(backups, i, backup)
	{
		const char *problem = json_string_value(json_object_get(backup, "problem"));

		if (problem)
			log_error("%s", problem);
	}
}

/* A raw file has one backup, which has no number. */
static json_t *
list_raw(const char *path, GError **error)
{
	g_autofree char *state_path = g_strconcat(path, ".state", NULL);
	struct backup_state BACKUP_STATE_CLEANUP state = {.source = NULL};
	g_autoptr(GError) why = NULL;
	g_autofree char *date = NULL;
	json_t *backup;
	struct stat st;

	if (stat(path, &st) < 0) {
		failure_errno(error, errno, "%s", path);
		return NULL;
	}
	if (!S_ISREG(st.st_mode))
		return FAILURE_NULL(error, EINVAL, "%s is neither a directory nor a file", path);
	if (!backup_state_read(&state, state_path, &why))
		return failure_is(why, ENOENT)
			       ? FAILURE_NULL(error, ENOENT, "%s is no backup: there is no %s",
					      path, state_path)
			       : (failure_pass(error, &why), NULL);
	date = backup_date_iso(state.seconds);
	backup = json_pack("{sn sn ss sI sI sI}", "number", "base", "date", date, "seconds",
			   (json_int_t)state.seconds, "size", (json_int_t)st.st_blocks * 512,
			   "image-size", (json_int_t)state.size);
	list_set_text(backup, "file", path);
	list_set_text(backup, "source", state.source);
	list_set_text(backup, "bitmap", state.bitmap);
	return json_pack("[o]", backup);
}

static void
list_show(json_t *backups, bool json, bool verified)
{
	json_auto_t *object = NULL;

	if (json) {
		object = json_pack("{sO}", "backups", backups);
		output_json(stdout, object, true);
	} else if (json_array_size(backups)) {
		list_print(backups, verified);
	}
}

/* While it reads data, nothing is merged. */
static bool
list_verified(const char *directory, bool json, struct progress *progress, GError **error)
{
	int CLEANUP_CLOSE shared = durable_share(directory, false, error);
	g_autoptr(GPtrArray) links = shared < 0 ? NULL : list_read_chain(directory, error);
	json_auto_t *backups = links ? list_chain(links) : NULL;
	const struct chain_link *first, *last;

	/* Whoever verifies another directory by mistake must not be told that all is well. */
	if (links && !links->len)
		return failure(error, ENOENT, "%s has no backups (*.delta)", directory);
	if (!backups || !list_verify(links, backups, progress, &first, error))
		return false;
	list_show(backups, json, true);
	list_log_problems(backups);
	if (!first)
		return true;
	last = links->pdata[links->len - 1];
	return failure(error, EBADMSG,
		       "%s: backups %" G_GUINT64_FORMAT " to %" G_GUINT64_FORMAT
		       " cannot be restored: take a full backup into another directory",
		       directory, first->last, last->last);
}

bool
backup_list(const char *target, bool json, struct progress *verify, GError **error)
{
	const bool is_chain = g_file_test(target, G_FILE_TEST_IS_DIR);
	g_autoptr(GPtrArray) links = NULL;
	json_auto_t *backups = NULL;

	if (access(target, F_OK) < 0)
		return failure_errno(error, errno, "%s", target);
	if (verify && !is_chain)
		return failure(error, EINVAL,
			       "--verify is for a directory of deltas: %s has no checksums",
			       target);
	if (verify)
		return list_verified(target, json, verify, error);
	if (is_chain)
		links = list_read_chain(target, error);
	backups = !is_chain ? list_raw(target, error) : links ? list_chain(links) : NULL;
	if (backups)
		list_show(backups, json, false);
	return backups;
}
