/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A backup into a raw file.
 */
#include "tool/backup/backup.h"
#include "tool/backup/copy.h"
#include "tool/backup/durable.h"
#include "tool/backup/export_end.h"
#include "tool/backup/file_end.h"
#include "tool/backup/raw_backup.h"
#include "tool/device/image_file.h"
#include "tool/failure.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* ---- what is refused */

/* Whether the state is that of another source, which is an error unless it's forced. */
static bool
is_same_source(const struct raw_backup *raw, const struct backup_job *job, GError **error)
{
	return job->force || strcmp(raw->state.source, job->source) == 0 ||
	       failure(error, EEXIST,
		       "%s is a backup of %s, not of %s: name another file, or, if it is the same "
		       "disk, use --force",
		       raw->path, raw->state.source, job->source);
}

static bool
may_replace(const struct raw_backup *raw, const struct backup_job *job, GError **error)
{
	if (!raw->exists || job->force)
		return true;
	if (!raw->has_state)
		return failure(error, EEXIST,
			       "%s is there, and is no backup (there is no %s): remove it, name "
			       "another file, or use --force",
			       raw->path, raw->state_path);
	return is_same_source(raw, job, error);
}

static bool
raw_may_increment(const struct raw_backup *raw, const struct backup_job *job, GError **error)
{
	if (!raw->exists || !raw->has_state)
		return failure(error, ENOENT,
			       "%s is no backup that an increment could belong to: take a full "
			       "backup%s",
			       raw->path, job->moment ? "" : " with --bitmap=NAME");
	return is_same_source(raw, job, error) && raw_backup_is_unchanged(raw, error);
}

/* On this machine it can be seen which files the server has open. */
static bool
is_no_image_of_the_server(const struct raw_backup *raw, const struct backup_source *source,
			  GError **error)
{
	const pid_t server = export_end_server(source->end);
	const struct image_identity image = image_file_identity(&raw->st);
	g_autofree char *opened = NULL;

	if (!raw->exists || server <= 0 || server == getpid())
		return true;
	opened = image_file_opened_by(server, &image);
	return !opened || failure(error, EBUSY,
				  "%s is open in the server of the source (process %d): it is the "
				  "image itself, or is served, too; name another file",
				  raw->path, (int)server);
}

/* ---- the two kinds */

static uint64_t
seconds_now(void)
{
	return (uint64_t)(g_get_real_time() / G_USEC_PER_SEC);
}

static bool
copy_all(struct raw_backup *raw, const struct backup_job *job, const struct backup_source *source,
	 GError **error)
{
	struct end *END_CLEANUP target = NULL;
	int fd = raw_backup_begin(raw, error);

	if (fd < 0)
		return false;
	target = file_end_new(fd, raw->path, true);
	return (ftruncate(fd, (off_t)source->size) == 0 ||
		failure_errno(error, errno, "%s: %" G_GUINT64_FORMAT " bytes", raw->path,
			      source->size)) &&
	       backup_copy(job, source, target, error);
}

static bool
raw_backup_full(struct raw_backup *raw, const struct backup_job *job,
		const struct backup_source *source, const char *next, GError **error)
{
	struct backup_state BACKUP_STATE_CLEANUP state = {
		.source = g_strdup(job->source),
		.bitmap = g_strdup(next),
		.size = source->size,
		.complete = true,
		.seconds = seconds_now(),
	};

	backup_state_new_id(state.id);
	if (!copy_all(raw, job, source, error))
		return false;
	backup_keep_checkpoint(job);
	return raw_backup_replace(raw, &state, error);
}

/* On the disk, the file now has what has changed. */
static bool
verify_increment(struct raw_backup *raw, const struct backup_job *job,
		 const struct backup_source *source, GError **error)
{
	const int fd = durable_open(raw->path, O_RDONLY, error);
	struct end *END_CLEANUP target = NULL;
	struct copy_options options = {
		.source = source->end,
		.plan = source->plan,
		.progress = job->progress,
	};

	if (fd < 0)
		return false;
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	options.target = target = file_end_new(fd, raw->path, false);
	return copy_compare(&options, error) || raw_backup_distrust(raw, error);
}

static bool
raw_backup_increment(struct raw_backup *raw, const struct backup_job *job,
		     const struct backup_source *source, const char *next, GError **error)
{
	g_autofree struct delta_header *header = g_new0(struct delta_header, 1);
	int fd;

	if (!backup_source_has_size(source, job, raw->state.size, "", error))
		return false;
	fd = raw_backup_begin(raw, error);
	if (fd < 0)
		return false;
	header->number = 1;
	header->seconds = seconds_now();
	backup_state_new_id(header->id);
	memcpy(header->parent, raw->state.id, DELTA_ID_SIZE);
	g_strlcpy(header->source, job->source, sizeof(header->source));
	g_strlcpy(header->bitmap, next, sizeof(header->bitmap));
	if (!backup_write_delta(job, source, fd, raw->path, header, error))
		return false;
	backup_keep_checkpoint(job);
	return raw_backup_apply(raw, job->progress, error) &&
	       (!job->verify || verify_increment(raw, job, source, error));
}

static bool
raw_backup_run(struct raw_backup *raw, const struct backup_job *job, struct backup_result *result,
	       GError **error)
{
	struct backup_source BACKUP_SOURCE_CLEANUP source = {.end = NULL};
	const char *since, *next;

	if (!(job->incremental ? raw_may_increment(raw, job, error)
			       : may_replace(raw, job, error)) ||
	    !backup_choose_bitmaps(job, raw->has_state ? raw->state.bitmap : NULL, &since, &next,
				   error) ||
	    !backup_source_open(&source, job, since, next, error) ||
	    !is_no_image_of_the_server(raw, &source, error) ||
	    !image_file_has_no_writer(raw->path, error))
		return false;
	result->zeroes = plan_bytes(source.plan, true);
	result->next = g_strdup(next);
	return job->incremental ? raw_backup_increment(raw, job, &source, next, error)
				: raw_backup_full(raw, job, &source, next, error);
}

bool
backup_to_file(const struct backup_job *job, struct backup_result *result, GError **error)
{
	struct raw_backup RAW_BACKUP_CLEANUP raw;
	bool done;

	if (!raw_backup_open(&raw, job->target, job->progress, error))
		return false;
	done = raw_backup_run(&raw, job, result, error);
	backup_end_moment(job, done);
	return done;
}
