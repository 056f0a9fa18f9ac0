/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A backup: its source, the copy, and the three kinds of targets.
 */
#include "tool/backup/backup.h"

#include "common/cleanup.h"
#include "tool/backup/backup_state.h"
#include "tool/backup/chain.h"
#include "tool/backup/copy.h"
#include "tool/backup/delta_end.h"
#include "tool/backup/durable.h"
#include "tool/backup/export_end.h"
#include "tool/backup/file_end.h"
#include "tool/backup/merge.h"
#include "tool/backup/raw_backup.h"
#include "tool/device/image_file.h"
#include "tool/failure.h"
#include "tool/link/nbd_uri.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the source */

/* The source of a backup, and what is to be copied of it. */
struct backup_source {
	char *uri;
	struct end *end;
	uint64_t size; /* bytes */
	GArray *plan;
};

#define BACKUP_SOURCE_CLEANUP __attribute__((cleanup(backup_source_close)))

static bool
backup_make_plan(struct backup_source *source, const char *since, GError **error)
{
	g_autoptr(GArray) wanted = plan_new();

	source->size = export_end_size(source->end);
	source->plan = plan_new();
	if (!since)
		plan_add(wanted, 0, source->size, false);
	else if (!export_end_changed(source->end, since, wanted, error))
		return false;
	return export_end_allocated(source->end, wanted, source->plan, error);
}

/* Opens the source; `since`: only what has changed since that checkpoint, or NULL; `next`: the
 * target's next checkpoint, which the server must have, or NULL. */
static bool
backup_source_open(struct backup_source *source, const struct backup_job *job, const char *since,
		   const char *next, GError **error)
{
	const bool both = since && next && strcmp(since, next) != 0;
	struct export_end_options options = {
		.bitmaps = {since ? since : next, both ? next : NULL},
		.connections = job->connections,
		.seconds = job->seconds,
	};

	if (job->moment) {
		job->moment->since = g_strdup(since);
		source->uri = job->moment->make(job->moment, error);
	} else {
		source->uri = g_strdup(job->source);
	}
	options.uri = source->uri;
	source->end = options.uri ? export_end_open(&options, error) : NULL;
	return source->end && backup_make_plan(source, since, error);
}

static void
backup_source_close(struct backup_source *source)
{
	end_clear(&source->end);
	g_clear_pointer(&source->plan, g_array_unref);
	g_clear_pointer(&source->uri, g_free);
}

/* An error if its size is not that of the last backup.  `where`: what a user must add to the words
 * "repeat the command without --incremental". */
static bool
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

/* The checkpoint that the changes are counted from, and the target's next one, by what the job and
 * the target (`has`; NULL: no checkpoint) say.  False with an error. */
static bool
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

/* To be called before the target's state says that it belongs to its next checkpoint. */
static void
backup_keep_checkpoint(const struct backup_job *job)
{
	if (job->moment)
		job->moment->kept = true;
}

/* To be called when the source is closed, while the target is still locked. */
static void
backup_end_moment(const struct backup_job *job, bool done)
{
	if (job->moment)
		job->moment->end(job->moment, done);
}

/* The job, without --incremental=auto: what it is for a target that has a backup, or none. */
static struct backup_job
backup_decide(const struct backup_job *job, bool has_backup, struct backup_result *result)
{
	struct backup_job decided = *job;

	decided.incremental = job->incremental && (has_backup || !job->or_full);
	result->incremental = decided.incremental;
	return decided;
}

/* ---- the copy */

/* Copies the source's plan; `verify`: then compares both. */
static bool
backup_copy(const struct backup_job *job, const struct backup_source *source, struct end *target,
	    bool verify, GError **error)
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
	return !verify || copy_compare(&options, error);
}

/* Compares the source with the delta as it is on the disk. */
static bool
compare_delta(const struct backup_job *job, const struct backup_source *source, int fd,
	      const char *path, const struct delta_header *header, GError **error)
{
	g_autoptr(GArray) plan = NULL;
	struct end *END_CLEANUP delta = delta_end_open(fd, path, header);
	struct copy_options options = {
		.source = source->end,
		.target = delta,
		.progress = job->progress,
	};

	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	options.plan = plan = delta_plan(fd, path, header, error);
	return plan && copy_compare(&options, error);
}

/* Writes the plan into a new delta file, open as `fd`, which it takes over; compares if that is
 * wanted.  The header has all but the image's size. */
static bool
backup_write_delta(const struct backup_job *job, const struct backup_source *source, int fd,
		   const char *path, struct delta_header *header, GError **error)
{
	int CLEANUP_CLOSE again = job->verify ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
	struct end *END_CLEANUP delta = NULL;

	if (job->verify && again < 0) {
		close(fd);
		return failure_errno(error, errno, "%s", path);
	}
	header->size = source->size;
	delta = delta_end_create(fd, path, header, error);
	if (!delta || !backup_copy(job, source, delta, false, error))
		return false;
	return !job->verify || compare_delta(job, source, steal_fd(&again), path, header, error);
}

/* ---- into a directory of deltas */

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

/* `parent`: the ID of the backup that the delta belongs on; NULL: it is a full one. */
static bool
fill_header(struct delta_header *header, const struct backup_job *job, const uint8_t *parent,
	    uint64_t number, const char *next, GError **error)
{
	if (strlen(job->source) > DELTA_TEXT_MAX || (next && strlen(next) > DELTA_TEXT_MAX))
		return failure(error, ENAMETOOLONG, "%s is too long", job->source);
	header->number = number;
	header->seconds = (uint64_t)(g_get_real_time() / G_USEC_PER_SEC);
	backup_state_new_id(header->id);
	if (parent)
		memcpy(header->parent, parent, DELTA_ID_SIZE);
	g_strlcpy(header->source, job->source, sizeof(header->source));
	g_strlcpy(header->bitmap, next ? next : "", sizeof(header->bitmap));
	return true;
}

static bool
chain_add(const struct backup_job *job, const struct backup_source *source, const char *path,
	  struct delta_header *header, GError **error)
{
	struct stat there;
	int fd;

	/* The caller has the lock, so nobody makes the file meanwhile. */
	if (lstat(path, &there) == 0)
		return failure(error, EEXIST, "%s is there, but its directory does not list it",
			       path);
	if (errno != ENOENT)
		return failure_errno(error, errno, "%s", path);
	fd = durable_begin(path, error);
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
	    !fill_header(header, job, last ? last->header.id : NULL,
			 last ? last->header.number + 1 : 0, next, error) ||
	    !backup_source_open(&source, job, since, next, error) ||
	    (last && !backup_source_has_size(&source, job, last->header.size,
					     ", into another directory", error)))
		return false;
	result->zeroes = plan_bytes(source.plan, true);
	result->next = g_strdup(next);
	result->file = chain_path(job->target, header->number);
	return chain_add(job, &source, result->file, header, error);
}

/* Merges the backups that are not kept.  While a restore is reading, that fails, and is left to the
 * next backup. */
static bool
chain_keep(const struct backup_job *job, GError **error)
{
	const struct merge_job merge = {
		.directory = job->target,
		.retention = job->retention,
		.verify = job->verify,
		.progress = job->progress,
	};
	g_autoptr(GError) why = NULL;

	if (!retention_is_wanted(&job->retention) || merge_run(&merge, &why))
		return true;
	g_prefix_error(&why, "the backup is complete, but older ones were not merged: ");
	return failure_pass(error, &why);
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
	/* A number that is in an earlier file already would be skipped by restoring. */
	done = links && chain_read_ends(links, error);
	if (done) {
		const struct backup_job decided = backup_decide(job, links->len, result);

		done = chain_backup(&decided, links->len ? links->pdata[links->len - 1] : NULL,
				    result, error);
	}
	backup_end_moment(job, done);
	done = done && chain_keep(job, error);
	durable_unlock(name, lock);
	return done;
}

/* ---- into another export: replication */

/* URIs that can't be taken apart here, such as those of vsock, are compared as texts. */
static bool
is_other_export(const struct backup_job *job, GError **error)
{
	struct nbd_uri a, b;
	bool same = strcmp(job->source, job->target) == 0;

	if (nbd_uri_parse(job->source, &a, NULL)) {
		if (nbd_uri_parse(job->target, &b, NULL))
			same = same || (g_strcmp0(a.host, b.host) == 0 && a.port == b.port &&
					g_strcmp0(a.socket, b.socket) == 0 &&
					g_strcmp0(a.export, b.export) == 0);
		nbd_uri_fini(&b);
	}
	nbd_uri_fini(&a);
	return !same || failure(error, EINVAL, "%s is the source itself", job->target);
}

/* Whether the state is that of this target, and of this source or --force is given. */
static bool
export_backup_may_increment(const struct backup_state *state, const struct backup_job *job,
			    GError **error)
{
	if (g_strcmp0(state->target, job->target) != 0)
		return failure(
			error, EINVAL,
			"%s is the state of %s, not of %s: take a full backup with a state of "
			"its own",
			job->state, state->target ? state->target : "a file", job->target);
	if (!job->force && strcmp(state->source, job->source) != 0)
		return failure(error, EINVAL,
			       "%s is a backup of %s, not of %s: take a full backup, or, if it is "
			       "the same disk, use --force",
			       job->target, state->source, job->source);
	if (!state->complete && !state->bitmap)
		return failure(error, EINVAL,
			       "%s: the last full backup has not ended: take it again",
			       job->target);
	return true;
}

static struct end *
open_target(const struct backup_job *job, const struct backup_source *source, GError **error)
{
	const struct export_end_options options = {
		.uri = job->target,
		.connections = job->connections,
		.seconds = job->seconds,
		.writable = true,
		.least_size = source->size,
	};
	struct end *target = export_end_open(&options, error);

	if (target && job->moment && !job->moment->may_write(job->moment, target, error))
		end_clear(&target);
	return target;
}

/* The state tells of the unfinished backup before the first write.  An increment that was not ended
 * is taken again from the same checkpoint, which still has all its changes. */
static bool
export_backup_copy(const struct backup_job *job, const struct backup_source *source,
		   struct backup_state *state, const char *next, GError **error)
{
	struct end *END_CLEANUP target = open_target(job, source, error);

	if (!target)
		return false;
	state->complete = false;
	if (job->state && !backup_state_write(state, job->state, error))
		return false;
	if (!backup_copy(job, source, target, job->verify, error))
		return false;
	backup_keep_checkpoint(job);
	g_free(state->bitmap);
	state->bitmap = g_strdup(next);
	state->complete = true;
	return !job->state || backup_state_write(state, job->state, error);
}

static void
begin_state(struct backup_state *state, const struct backup_job *job, uint64_t size)
{
	if (!job->incremental)
		g_clear_pointer(&state->bitmap, g_free);
	g_free(state->source);
	g_free(state->target);
	state->source = g_strdup(job->source);
	state->target = g_strdup(job->target);
	state->size = size;
	state->seconds = (uint64_t)(g_get_real_time() / G_USEC_PER_SEC);
	backup_state_new_id(state->id);
}

static bool
read_state(struct backup_state *state, const struct backup_job *job, GError **error)
{
	GError *why = NULL;

	if (!job->state || backup_state_read(state, job->state, &why))
		return !job->incremental || export_backup_may_increment(state, job, error);
	if (job->incremental && failure_is(why, ENOENT)) {
		g_clear_error(&why);
		return failure(error, ENOENT, "there is no %s: take a full backup%s", job->state,
			       job->moment ? "" : " with --bitmap=NAME");
	}
	/* A full backup needs none; but a file that is something else is not to be replaced. */
	if (!failure_is(why, ENOENT) && !job->force)
		return failure_pass(error, &why);
	g_clear_error(&why);
	return true;
}

static bool
export_backup_run(const struct backup_job *job, struct backup_state *state,
		  struct backup_result *result, GError **error)
{
	struct backup_source BACKUP_SOURCE_CLEANUP source = {.end = NULL};
	g_autofree char *has = NULL;
	const char *since, *next;

	if (!read_state(state, job, error))
		return false;
	has = g_strdup(state->bitmap); /* the state changes */
	if (!backup_choose_bitmaps(job, has, &since, &next, error) ||
	    !backup_source_open(&source, job, since, next, error) ||
	    (since && !backup_source_has_size(&source, job, state->size,
					      ", into a target of this size", error)))
		return false;
	begin_state(state, job, source.size);
	result->zeroes = plan_bytes(source.plan, true);
	result->next = g_strdup(next);
	return export_backup_copy(job, &source, state, next, error);
}

bool
backup_to_export(const struct backup_job *job, struct backup_result *result, GError **error)
{
	struct backup_state BACKUP_STATE_CLEANUP state = {.source = NULL};
	struct backup_job decided;
	int lock = -1;
	bool done;

	if (!job->state && (job->incremental || job->bitmap))
		return failure(error, EINVAL,
			       "name a file that keeps what %s is a copy of: --state=FILE",
			       job->target);
	if (!is_other_export(job, error))
		return false;
	if (job->state) {
		lock = durable_lock(job->state, error);
		if (lock < 0)
			return false;
	}
	decided = backup_decide(job, job->state && access(job->state, F_OK) == 0, result);
	done = export_backup_run(&decided, &state, result, error);
	backup_end_moment(job, done);
	if (lock >= 0)
		durable_unlock(job->state, lock);
	return done;
}

/* ---- into a raw file */

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

static bool
raw_backup_full(struct raw_backup *raw, const struct backup_job *job,
		const struct backup_source *source, const char *next, GError **error)
{
	struct backup_state BACKUP_STATE_CLEANUP state = {
		.source = g_strdup(job->source),
		.bitmap = g_strdup(next),
		.size = source->size,
		.complete = true,
		.seconds = (uint64_t)(g_get_real_time() / G_USEC_PER_SEC),
	};
	struct end *END_CLEANUP target = NULL;
	int fd;

	backup_state_new_id(state.id);
	fd = raw_backup_begin(raw, error);
	if (fd < 0)
		return false;
	target = file_end_new(fd, raw->path, true);
	if (ftruncate(fd, (off_t)source->size) < 0)
		return failure_errno(error, errno, "%s: %" G_GUINT64_FORMAT " bytes", raw->path,
				     source->size);
	if (!backup_copy(job, source, target, job->verify, error))
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
	if (copy_compare(&options, error))
		return true;
	raw_backup_distrust(raw);
	return false;
}

static bool
raw_backup_increment(struct raw_backup *raw, const struct backup_job *job,
		     const struct backup_source *source, const char *next, GError **error)
{
	g_autofree struct delta_header *header = g_new0(struct delta_header, 1);
	int fd;

	if (!backup_source_has_size(source, job, raw->state.size, "", error) ||
	    !fill_header(header, job, raw->state.id, 1, next, error))
		return false;
	fd = raw_backup_begin(raw, error);
	if (fd < 0 || !backup_write_delta(job, source, fd, raw->path, header, error))
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
	struct backup_job decided;
	bool done;

	if (!raw_backup_open(&raw, job->target, false, job->progress, error))
		return false;
	decided = backup_decide(job, raw.exists || raw.has_state, result);
	done = raw_backup_run(&raw, &decided, result, error);
	backup_end_moment(job, done);
	return done;
}
