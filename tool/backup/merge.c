/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/backup/merge.h"

#include "tool/backup/chain.h"
#include "tool/backup/copy.h"
#include "tool/backup/delta_end.h"
#include "tool/backup/durable.h"
#include "tool/failure.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* ---- the source of a merge: several deltas, the newer above the older */

#define LAYERS_MAX 256 /* files that are open at a time */

struct layers {
	struct end end;
	GPtrArray *ends; /* struct end, the oldest first */
};

static void
layers_start(struct end *end, struct end_request *request)
{
	const struct layers *layers = (const struct layers *)end;
	struct end *layer = layers->ends->pdata[request->piece.layer];

	layer->kind->start(layer, request);
}

static void
layers_free_one(void *data)
{
	struct end *end = data;

	end_clear(&end);
}

static void
layers_free(struct end *end)
{
	g_ptr_array_unref(((struct layers *)end)->ends);
	g_free(end->name);
	g_free(end);
}

/* Puts a link above the layers and their plan, which is replaced. */
static bool
layers_add(struct layers *layers, const struct chain_link *link, GArray **plan, GError **error)
{
	const int fd = chain_open(link, error);
	g_autoptr(GArray) own = NULL;
	GArray *all;

	if (fd < 0)
		return false;
	g_ptr_array_add(layers->ends, delta_end_open(fd, link->path, &link->header));
	own = delta_plan(fd, link->path, &link->header, error);
	if (!own)
		return false;
	for (guint i = 0; i < own->len; i++)
		g_array_index(own, struct part, i).layer = layers->ends->len - 1;
	all = plan_overlay(own, *plan);
	g_array_unref(*plan);
	*plan = all;
	return true;
}

static struct layers *
layers_new(const char *name)
{
	static const struct end_kind layers_kind = {.start = layers_start, .free = layers_free};
	struct layers *layers = g_new0(struct layers, 1);

	layers->end = (struct end){
		.kind = &layers_kind, .name = g_strdup(name), .zero_max = PLAN_ZERO_MAX};
	layers->ends = g_ptr_array_new_with_free_func(layers_free_one);
	return layers;
}

/* ---- a file in place of another one */

/* The new file has that name when the caller calls durable_end(). `from` may be NULL: then it has
 * no records. */
static bool
merge_write(const char *path, struct delta_header *header, uint64_t merged, struct end *from,
	    GArray *plan, struct progress *progress, GError **error)
{
	struct copy_options options = {.source = from, .plan = plan, .progress = progress};
	struct end *END_CLEANUP target = NULL;
	const int fd = durable_begin(path, error);

	if (fd < 0)
		return false;
	target = delta_end_create(fd, path, header, error);
	if (!target)
		return false;
	delta_end_set_merged(target, (uint32_t)merged);
	options.target = target;
	return from ? copy_run("merge", &options, error) : target->kind->sync(target, error);
}

/* Whether the new file, "PATH.part" or the link itself, has all its records; `data`: and all their
 * bytes. */
static bool
merge_is_whole(const char *path, const struct delta_header *header, bool data, GError **error)
{
	int CLEANUP_CLOSE fd = durable_open(path, O_RDONLY, error);

	return fd >= 0 && delta_is_whole(fd, path, header, data, NULL, error);
}

/* Gives the new file its name, unless somebody is reading the old one. */
static bool
merge_replace(const struct merge_job *job, const char *path, GError **error)
{
	int CLEANUP_CLOSE alone = durable_share(job->directory, true, error);

	return alone >= 0 && durable_end(path, error);
}

/* ---- the steps */

/* Merges the links from `first` to `last` into the first one's file. */
static bool
merge_links(const struct merge_job *job, GPtrArray *links, guint first, guint last, GError **error)
{
	const struct chain_link *oldest = links->pdata[first], *newest = links->pdata[last];
	g_autofree struct delta_header *header = g_new(struct delta_header, 1);
	g_autofree char *part = g_strconcat(oldest->path, ".part", NULL);
	struct layers *layers = layers_new(job->directory);
	struct end *END_CLEANUP source = &layers->end;
	g_autoptr(GArray) plan = plan_new();

	/* The place in the chain is the oldest one's, and all else the newest one's. */
	*header = newest->header;
	header->number = oldest->header.number;
	memcpy(header->id, oldest->header.id, DELTA_ID_SIZE);
	memcpy(header->parent, oldest->header.parent, DELTA_ID_SIZE);
	for (guint i = first; i <= last; i++) {
		if (!layers_add(layers, links->pdata[i], &plan, error))
			return false;
	}
	if (merge_write(oldest->path, header, newest->last - header->number, source, plan,
			job->progress, error) &&
	    merge_is_whole(part, header, job->verify, error) &&
	    merge_replace(job, oldest->path, error))
		return true;
	durable_cancel(oldest->path);
	return false;
}

/* Empties the file of a link that was merged. */
static bool
merge_empty(const struct merge_job *job, const struct chain_link *link, GError **error)
{
	g_autofree struct delta_header *header =
		g_memdup2(&link->header, sizeof(struct delta_header));

	if (merge_write(link->path, header, 0, NULL, NULL, job->progress, error) &&
	    merge_replace(job, link->path, error))
		return true;
	durable_cancel(link->path);
	return false;
}

/* Empties the files of merged links, if their bytes are in the file that contains them.  The oldest
 * comes first: a reader that does not skip them applies the ones that are left, in order, up to the
 * last of them.  So it ends with the same state. */
static bool
merge_empty_all(const struct merge_job *job, GPtrArray *links, GError **error)
{
	const struct chain_link *into = NULL;
	bool whole = false;

	for (guint i = 0; i < links->len; i++) {
		const struct chain_link *link = links->pdata[i];

		if (!link->merged) {
			into = link;
			whole = false;
		} else if (link->records > 0) {
			/* A merge that was killed may not have come to the directory's sync. */
			if (!whole && (!merge_is_whole(into->path, &into->header, false, error) ||
				       !durable_sync_directory(job->directory, error)))
				return false;
			whole = true;
			if (!merge_empty(job, link, error))
				return false;
		}
	}
	return true;
}

/* Finds the first links that are to be one.  False: there are none. */
static bool
merge_find(GPtrArray *links, const struct retention *retention, guint *first, guint *last)
{
	g_autofree uint64_t *seconds = g_new(uint64_t, links->len);
	g_autofree bool *keep = g_new0(bool, links->len);

	for (guint i = 0; i < links->len; i++)
		seconds[i] = ((const struct chain_link *)links->pdata[i])->header.seconds;
	retention_choose(retention, seconds, links->len, keep);
	for (*first = 0; *first < links->len && keep[*first];)
		++*first;
	for (*last = *first; *last < links->len && !keep[*last] && *last - *first < LAYERS_MAX - 1;)
		++*last;
	return *first < links->len;
}

/* What killed merges and backups have left, which may be large. */
static void
merge_remove_parts(const char *directory)
{
	g_autoptr(GDir) dir = g_dir_open(directory, 0, NULL);
	const char *name;

	while (dir && (name = g_dir_read_name(dir))) {
		g_autofree char *path = g_build_filename(directory, name, NULL);

		if (g_str_has_suffix(name, ".delta.part"))
			unlink(path);
	}
}

/* One step of a merge.  Sets *done if nothing was left to do. */
static bool
merge_step(const struct merge_job *job, bool *done, GError **error)
{
	g_autoptr(GPtrArray) links = chain_read(job->directory, error);
	guint first, last;

	if (!links || !chain_read_ends(links, error) || !merge_empty_all(job, links, error))
		return false;
	chain_remove_merged(links);
	*done = !merge_find(links, &job->retention, &first, &last);
	return *done || merge_links(job, links, first, last, error);
}

bool
merge_run(const struct merge_job *job, GError **error)
{
	int CLEANUP_CLOSE alone = durable_share(job->directory, true, error);
	bool done = false;

	/* Known before hours of work; until a file is replaced, a restore may begin. */
	if (alone < 0)
		return false;
	close(steal_fd(&alone));
	merge_remove_parts(job->directory);
	while (!done) {
		if (!merge_step(job, &done, error))
			return false;
	}
	return true;
}

bool
merge_directory(const struct merge_job *job, GError **error)
{
	g_autofree char *name = g_build_filename(job->directory, "backup", NULL);
	int lock = durable_lock(name, error);
	bool done;

	if (lock < 0)
		return false;
	done = merge_run(job, error);
	durable_unlock(name, lock);
	return done;
}
