/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What backups into all kinds of targets have in common.
 */
#include "tool/backup/backup.h"

#include "tool/backup/copy.h"
#include "tool/backup/delta_end.h"
#include "tool/backup/export_end.h"
#include "tool/failure.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* ---- the source */

static bool
backup_make_plan(struct backup_source *source, const char *since, GError **error)
{
	g_autoptr(GArray) wanted = plan_new();

	source->size = export_end_size(source->end);
	source->plan = plan_new();
	if (since) {
		if (!export_end_changed(source->end, since, wanted, error))
			return false;
	} else {
		plan_add(wanted, 0, source->size, false);
	}
	return export_end_allocated(source->end, wanted, source->plan, error);
}

static char *
uri_of(const struct backup_job *job, const char *since, GError **error)
{
	if (!job->moment)
		return g_strdup(job->source);
	job->moment->since = g_strdup(since);
	return job->moment->make(job->moment, error);
}

static struct end *
open_end(const struct backup_job *job, const char *uri, const char *since, const char *next,
	 GError **error)
{
	const bool both = since && next && strcmp(since, next) != 0;
	const struct export_end_options options = {
		.uri = uri,
		.bitmaps = {since ? since : next, both ? next : NULL},
		.connections = job->connections,
		.seconds = job->seconds,
	};

	return export_end_open(&options, error);
}

bool
backup_source_open(struct backup_source *source, const struct backup_job *job, const char *since,
		   const char *next, GError **error)
{
	source->uri = uri_of(job, since, error);
	source->end = source->uri ? open_end(job, source->uri, since, next, error) : NULL;
	return source->end && backup_make_plan(source, since, error);
}

void
backup_source_close(struct backup_source *source)
{
	end_clear(&source->end);
	g_clear_pointer(&source->plan, g_array_unref);
	g_clear_pointer(&source->uri, g_free);
}

bool
backup_source_has_size(const struct backup_source *source, const struct backup_job *job,
		       uint64_t size, const char *where, GError **error)
{
	return source->size == size ||
	       failure(error, EINVAL,
		       "%s has %s since the last backup, from %" G_GUINT64_FORMAT
		       " to %" G_GUINT64_FORMAT
		       " bytes: take a full backup (repeat the command without "
		       "--incremental%s)",
		       job->source, source->size > size ? "grown" : "shrunk", size, source->size,
		       where);
}

bool
backup_choose_bitmaps(const struct backup_job *job, const char *has, const char **since,
		      const char **next, GError **error)
{
	*since = NULL;
	if (job->moment)
		job->moment->has = g_strdup(has);
	*next = job->moment ? job->moment->checkpoint : job->bitmap;
	if (!job->incremental)
		return true;
	if (!has)
		return failure(error, EINVAL, "%s belongs to no checkpoint: take a full backup%s",
			       job->target, job->moment ? "" : " with --bitmap=NAME");
	if (job->bitmap && strcmp(job->bitmap, has) != 0)
		return failure(
			error, EINVAL,
			"%s belongs to the checkpoint \"%s\", not to \"%s\": use --bitmap=%s, "
			"or take a full backup",
			job->target, has, job->bitmap, has);
	if (job->next_bitmap && strcmp(job->next_bitmap, has) == 0)
		return failure(
			error, EINVAL,
			"%s belongs to the checkpoint \"%s\" already: if a new one has that name "
			"now, what has changed before it is unknown: take a full backup, or, if it "
			"is still the same one, leave out --next-bitmap",
			job->target, has);
	*since = has;
	if (!job->moment)
		*next = job->next_bitmap ? job->next_bitmap : has;
	return true;
}

void
backup_keep_checkpoint(const struct backup_job *job)
{
	if (job->moment)
		job->moment->kept = true;
}

void
backup_end_moment(const struct backup_job *job, bool done)
{
	if (job->moment)
		job->moment->end(job->moment, done);
}

/* ---- the copy */

bool
backup_copy(const struct backup_job *job, const struct backup_source *source, struct end *target,
	    GError **error)
{
	const struct copy_options options = {
		.source = source->end,
		.target = target,
		.plan = source->plan,
		.progress = job->progress,
	};

	if (!copy_run("copy", &options, error))
		return false;
	job->progress->copied += plan_bytes(source->plan, false);
	return !job->verify || copy_compare(&options, error);
}

/* As it is on the disk, with the zeroes that a full one doesn't have. */
static bool
compare_delta(const struct backup_job *job, const struct backup_source *source, int fd,
	      const char *path, const struct delta_header *header, GError **error)
{
	g_autoptr(GArray) records = plan_new();
	g_autoptr(GArray) all = NULL;
	struct end *END_CLEANUP delta = delta_end_open(fd, path, header);
	const struct copy_options options = {
		.source = source->end,
		.target = delta,
		.progress = job->progress,
	};
	struct copy_options whole = options;

	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	if (!delta_plan(fd, path, header, records, error))
		return false;
	all = header->number ? g_array_ref(records) : plan_of_all(records, header->size);
	whole.plan = all;
	return copy_compare(&whole, error);
}

bool
backup_write_delta(const struct backup_job *job, const struct backup_source *source, int fd,
		   const char *path, struct delta_header *header, GError **error)
{
	int CLEANUP_CLOSE again = job->verify ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
	struct backup_job only_copy = *job;
	struct end *END_CLEANUP delta = NULL;

	if (job->verify && again < 0) {
		close(fd);
		return failure_errno(error, errno, "%s", path);
	}
	only_copy.verify = false;
	header->size = source->size;
	delta = delta_end_create(fd, path, header, error);
	if (!delta || !backup_copy(&only_copy, source, delta, error))
		return false;
	return !job->verify || compare_delta(job, source, steal_fd(&again), path, header, error);
}
