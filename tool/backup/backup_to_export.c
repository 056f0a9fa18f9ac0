/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A backup into another export: replication.
 */
#include "tool/backup/backup.h"
#include "tool/backup/backup_state.h"
#include "tool/backup/durable.h"
#include "tool/backup/export_end.h"
#include "tool/failure.h"
#include "tool/link/nbd_uri.h"

#include <errno.h>
#include <string.h>

/* ---- what is refused */

static bool
are_same(const struct nbd_uri *a, const struct nbd_uri *b)
{
	return g_strcmp0(a->host, b->host) == 0 && g_strcmp0(a->socket, b->socket) == 0 &&
	       a->port == b->port && g_strcmp0(a->export, b->export) == 0;
}

/* URIs that can't be taken apart here, such as those of vsock, are compared as texts. */
static bool
is_other_export(const struct backup_job *job, GError **error)
{
	struct nbd_uri source, target;
	bool same = strcmp(job->source, job->target) == 0;

	if (nbd_uri_parse(job->source, &source, NULL)) {
		if (nbd_uri_parse(job->target, &target, NULL))
			same = same || are_same(&source, &target);
		nbd_uri_fini(&target);
	}
	nbd_uri_fini(&source);
	return !same || failure(error, EINVAL, "%s is the source itself", job->target);
}

static bool
export_backup_check(const struct backup_job *job, GError **error)
{
	if (!job->state && (job->incremental || job->bitmap))
		return failure(error, EINVAL,
			       "name a file that keeps what %s is a copy of: --state=FILE",
			       job->target);
	return is_other_export(job, error);
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

/* ---- the copy */

static struct end *
open_target(const struct backup_job *job, const struct backup_source *source, GError **error)
{
	const struct export_end_options options = {
		.uri = job->target,
		.connections = job->connections,
		.seconds = job->seconds,
		.writable = true,
	};
	struct end *target = export_end_open(&options, error);

	if (!target)
		return NULL;
	if (export_end_size(target) < source->size)
		failure(error, ENOSPC,
			"%s has %" G_GUINT64_FORMAT " bytes, and the source %" G_GUINT64_FORMAT
			": it is too small",
			job->target, export_end_size(target), source->size);
	else if (!job->moment || job->moment->may_write(job->moment, target, error))
		return target;
	end_clear(&target);
	return NULL;
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
	if (!backup_copy(job, source, target, error))
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
	int lock = -1;
	bool done;

	if (!export_backup_check(job, error))
		return false;
	if (job->state) {
		lock = durable_lock(job->state, error);
		if (lock < 0)
			return false;
	}
	done = export_backup_run(job, &state, result, error);
	backup_end_moment(job, done);
	if (lock >= 0)
		durable_unlock(job->state, lock);
	return done;
}
