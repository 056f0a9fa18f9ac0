/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A backup into a directory of deltas.
 */
#include "tool/backup/backup.h"
#include "tool/backup/backup_state.h"
#include "tool/backup/chain.h"
#include "tool/backup/durable.h"
#include "tool/failure.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static bool
chain_make_directory(const char *path, GError **error)
{
	struct stat st;

	if (durable_make_directory(path))
		return true;
	if (errno != EEXIST)
		return failure_errno(error, errno, "%s", path);
	return (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) ||
	       failure(error, ENOTDIR, "%s is no directory, and --format=delta needs one", path);
}

/* `last`: NULL, there are no backups. */
static bool
may_add(const struct chain_link *last, const struct backup_job *job, GError **error)
{
	if (!job->incremental)
		return !last || failure(error, EEXIST,
					"%s has backups already: use --incremental, or another "
					"directory for the next full one",
					job->target);
	if (!last)
		return failure(error, ENOENT,
			       "%s has no backup that an increment could belong to: take a full "
			       "backup%s",
			       job->target, job->moment ? "" : " with --bitmap=NAME");
	return job->force || strcmp(last->header.source, job->source) == 0 ||
	       failure(error, EINVAL,
		       "%s has backups of %s, not of %s: name another directory, or, if it is the "
		       "same disk, use --force",
		       job->target, last->header.source, job->source);
}

static bool
fill_header(struct delta_header *header, const struct backup_job *job,
	    const struct chain_link *last, const char *next, GError **error)
{
	if (strlen(job->source) > DELTA_TEXT_MAX || (next && strlen(next) > DELTA_TEXT_MAX))
		return failure(error, ENAMETOOLONG, "%s is too long", job->source);
	header->seconds = (uint64_t)(g_get_real_time() / G_USEC_PER_SEC);
	backup_state_new_id(header->id);
	g_strlcpy(header->source, job->source, sizeof(header->source));
	g_strlcpy(header->bitmap, next ? next : "", sizeof(header->bitmap));
	if (!last)
		return true;
	header->number = last->header.number + 1;
	memcpy(header->parent, last->header.id, DELTA_ID_SIZE);
	return true;
}

static bool
chain_add(const struct backup_job *job, const struct backup_source *source, const char *path,
	  struct delta_header *header, GError **error)
{
	int fd = durable_begin(path, error);

	if (fd < 0)
		return false;
	if (backup_write_delta(job, source, fd, path, header, error)) {
		backup_keep_checkpoint(job);
		if (durable_end(path, error))
			return true;
	}
	durable_cancel(path);
	return false;
}

static bool
chain_backup(const struct backup_job *job, const struct chain_link *last,
	     struct backup_result *result, GError **error)
{
	struct backup_source BACKUP_SOURCE_CLEANUP source = {.end = NULL};
	g_autofree struct delta_header *header = g_new0(struct delta_header, 1);
	const char *has = last && *last->header.bitmap ? last->header.bitmap : NULL;
	const char *since, *next;

	if (!may_add(last, job, error) || !backup_choose_bitmaps(job, has, &since, &next, error) ||
	    !fill_header(header, job, last, next, error) ||
	    !backup_source_open(&source, job, since, next, error) ||
	    (last && !backup_source_has_size(&source, job, last->header.size,
					     ", into another directory", error)))
		return false;
	result->zeroes = plan_bytes(source.plan, true);
	result->next = g_strdup(next);
	result->file = chain_path(job->target, header->number);
	return chain_add(job, &source, result->file, header, error);
}

bool
backup_to_directory(const struct backup_job *job, struct backup_result *result, GError **error)
{
	g_autofree char *name = g_build_filename(job->target, "backup", NULL);
	g_autoptr(GPtrArray) links = NULL;
	bool done;
	int lock;

	if (!chain_make_directory(job->target, error))
		return false;
	lock = durable_lock(name, error);
	if (lock < 0)
		return false;
	links = chain_read(job->target, error);
	done = links &&
	       chain_backup(job, links->len ? links->pdata[links->len - 1] : NULL, result, error);
	backup_end_moment(job, done);
	durable_unlock(name, lock);
	return done;
}
