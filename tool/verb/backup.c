/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop backup: copies an export, or an image in use, or what has changed in it.
 */
#include "tool/backup/backup.h"
#include "tool/backup/interruption.h"
#include "tool/failure.h"
#include "tool/link/nbd_uri.h"
#include "tool/show/output.h"
#include "tool/verb/copy_options.h"
#include "tool/verb/live_source.h"
#include "tool/verb/verb.h"

#include "common/log.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

enum format {
	FORMAT_RAW,
	FORMAT_DELTA,
};

static const char *const format_names[] = {"raw", "delta", NULL};

struct backup_options {
	struct copy_verb_options copy;
	unsigned int incremental, verify;
	unsigned int format; /* enum format */
	char *bitmap, *next_bitmap, *state;
	/* Of an image in use. */
	char *export;
	struct snapshot_options snapshot;
};

static const struct option_row backup_option_rows[] = {
	OPTION_SWITCH("incremental", 'i', offsetof(struct backup_options, incremental),
		      "copy only what has changed since the last backup into the target"),
	{
		.name = "bitmap",
		.type = OPTION_STRING,
		.field = offsetof(struct backup_options, bitmap),
		.arg = "NAME",
		.help = "the checkpoint (dirty bitmap) that the target belongs to",
	},
	{
		.name = "next-bitmap",
		.type = OPTION_STRING,
		.field = offsetof(struct backup_options, next_bitmap),
		.arg = "NAME",
		.help = "--incremental: the target belongs to this one from then on",
	},
	{
		.name = "format",
		.type = OPTION_CHOICE,
		.choices = format_names,
		.field = offsetof(struct backup_options, format),
		.initial = "raw",
		.arg = "raw|delta",
		.help = "one image, or a file for each backup",
	},
	{
		.name = "state",
		.type = OPTION_STRING,
		.field = offsetof(struct backup_options, state),
		.arg = "FILE",
		.help = "where to keep what the target is a copy of",
	},
	{
		.name = "export",
		.type = OPTION_STRING,
		.field = offsetof(struct backup_options, export),
		.arg = "NAME",
		.help = "SOCKET: the export to copy (default: the only one)",
	},
	{
		.name = "expire",
		.type = OPTION_UINT,
		.field = offsetof(struct backup_options, snapshot.expire),
		.min = 60,
		.max = INT32_MAX,
		.arg = "SECONDS",
		.help = "when the snapshot ends by itself (default: 86400)",
	},
	SNAPSHOT_OPTION_ROWS(struct backup_options, snapshot),
	OPTION_SWITCH("verify", 0, offsetof(struct backup_options, verify),
		      "read all that was copied again, and compare"),
	OPTION_SWITCH("force", 0, offsetof(struct backup_options, copy.force),
		      "replace a file that is something else"),
	COPY_OPTION_ROWS(struct backup_options, copy),
	{.name = NULL},
};

/* What a URI can't have, and what an image in use has by itself. */
static bool
check_source(const struct backup_options *options, const char *source, GError **error)
{
	const struct snapshot_options *snapshot = &options->snapshot;
	struct stat st;

	if (nbd_uri_is(source))
		return (!options->export && !snapshot->freeze && !snapshot->scratch &&
			!snapshot->scratch_size && !snapshot->expire) ||
		       failure(error, EINVAL,
			       "--export, --expire, --freeze, --scratch and --scratch-size are for "
			       "a device or a control socket, and %s is a URI",
			       source);
	if (options->bitmap || options->next_bitmap)
		return failure(error, EINVAL,
			       "--bitmap and --next-bitmap are for a URI: of %s, a backup begins "
			       "its checkpoint itself",
			       source);
	return stat(source, &st) < 0 || !S_ISREG(st.st_mode) ||
	       failure(error, EINVAL,
		       "%s is a file: serve the image by nbdloopd -U PATH, and name "
		       "nbd+unix:///?socket=PATH, or attach it, and name the device",
		       source);
}

static bool
backup_check_options(const struct backup_options *options, const char *source, const char *target,
		     GError **error)
{
	if (!check_source(options, source, error))
		return false;
	if (options->next_bitmap && !options->incremental)
		return failure(
			error, EINVAL,
			"--next-bitmap is for --incremental; the checkpoint of a full backup "
			"is --bitmap");
	if (options->format == FORMAT_DELTA && nbd_uri_is(target))
		return failure(error, EINVAL, "--format=delta needs a directory, and %s is a URI",
			       target);
	return !options->state || nbd_uri_is(target) ||
	       failure(error, EINVAL, "--state is for a target that is a URI");
}

/* The last line of --json. */
static void
backup_tell_end(const struct backup_job *job, const struct backup_result *result)
{
	json_t *line =
		json_pack("{ss ss ss sb sI sI ss* ss*}", "event", "end", "source", job->source,
			  "target", job->target, "incremental", (int)job->incremental, "data",
			  (json_int_t)job->progress->copied, "zeroes", (json_int_t)result->zeroes,
			  "bitmap", result->next, "file", result->file);

	if (line)
		output_json(job->progress->out, line, false);
	json_decref(line);
}

static bool
run_job(const struct backup_job *job, enum format format, struct backup_result *result,
	GError **error)
{
	if (format == FORMAT_DELTA)
		return backup_to_directory(job, result, error);
	if (nbd_uri_is(job->target))
		return backup_to_export(job, result, error);
	return backup_to_file(job, result, error);
}

/* The same from a snapshot of an image in use. */
static bool
run_live(struct backup_job *job, const struct backup_options *options, struct backup_result *result,
	 GError **error)
{
	const bool to_uri = nbd_uri_is(job->target);
	const struct live_source_wish wish = {
		.source = job->source,
		.export = options->export,
		.target = to_uri && job->state ? job->state : job->target,
		.checkpoint = !to_uri || job->state,
	};
	struct live_source live;
	bool done = live_source_open(&live, &wish, &options->snapshot, error);

	if (done) {
		job->source = live.text;
		job->moment = &live.moment;
		done = run_job(job, options->format, result, error);
	}
	if (done && options->copy.json)
		backup_tell_end(job, result);
	live_source_close(&live);
	return done;
}

static bool
run_job_of(struct backup_job *job, const struct backup_options *options,
	   struct backup_result *result, GError **error)
{
	bool done;

	if (!nbd_uri_is(job->source))
		return run_live(job, options, result, error);
	done = run_job(job, options->format, result, error);
	if (done && options->copy.json)
		backup_tell_end(job, result);
	return done;
}

static bool
run_backup(const struct verb_call *call, GError **error)
{
	const struct backup_options *options = call->options;
	struct backup_result result = {.file = NULL};
	struct progress progress;
	struct backup_job job = {
		.source = call->operands[0],
		.target = call->operands[1],
		.incremental = options->incremental,
		.verify = options->verify,
		.force = options->copy.force,
		.bitmap = options->bitmap,
		.next_bitmap = options->next_bitmap,
		.state = options->state,
		.connections = options->copy.connections,
		.seconds = options->copy.seconds,
		.progress = &progress,
	};
	bool done;

	copy_verb_progress(&options->copy, &progress);
	if (!backup_check_options(options, job.source, job.target, error))
		return false;
	interruption_watch();
	done = run_job_of(&job, options, &result, error);
	g_free(result.file);
	g_free(result.next);
	/* A backup that was interrupted has said so, and ends as the signal ends a program. */
	if (!done && failure_is(*error, EINTR) && interruption_seen()) {
		log_error("%s", (*error)->message);
		interruption_end();
	}
	return done;
}

const struct verb verb_backup = {
	.name = "backup",
	.help = "copy a device or export, or what has changed in it",
	.synopsis = "[OPTION]... SOURCE TARGET",
	.summary =
		"Copies SOURCE, all of it or what has changed, to TARGET: a file, a URI, or, with\n"
		"--format=delta, a directory.  SOURCE is a DEVICE of nbdloop, or the control SOCKET\n"
		"of an nbdloopd, which are copied as they are now; or the URI of an export.",
	.rows = backup_option_rows,
	.least = 2,
	.most = 2,
	.options_size = sizeof(struct backup_options),
	.run = run_backup,
};
