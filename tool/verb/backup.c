/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop backup: copies an export, or what has changed in it.
 */
#include "tool/backup/backup.h"
#include "tool/failure.h"
#include "tool/server/nbd_uri.h"
#include "tool/show/output.h"
#include "tool/verb/copy_options.h"
#include "tool/verb/verb.h"

#include <errno.h>
#include <stdio.h>

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
};

static const struct option_row backup_option_rows[] = {
	OPTION_SWITCH(
		"incremental", 'i', offsetof(struct backup_options, incremental),
		"copy only what has changed since the target's checkpoint",
		"Copy only what has changed since the checkpoint that the target belongs to,\n"
		"which an earlier backup with I<--bitmap> has noted.\n"),
	{
		.name = "bitmap",
		.type = OPTION_STRING,
		.field = offsetof(struct backup_options, bitmap),
		.arg = "NAME",
		.help = "the checkpoint (dirty bitmap) that the target belongs to",
		.manual =
			"The checkpoint, or dirty bitmap, that the target belongs to: the server has\n"
			"the metadata context C<qemu:dirty-bitmap:NAME>.  With a full backup, it must\n"
			"be there before the copy begins, and is noted for the increments.  An\n"
			"increment is refused if the target belongs to another one.\n",
	},
	{
		.name = "next-bitmap",
		.type = OPTION_STRING,
		.field = offsetof(struct backup_options, next_bitmap),
		.arg = "NAME",
		.help = "--incremental: the target belongs to this one from then on",
		.manual =
			"With I<--incremental>: the checkpoint that the target belongs to when the\n"
			"increment is done.  It must be there before the copy begins.  The default is\n"
			"the same one as before, whose changes are then copied again the next time.\n",
	},
	{
		.name = "format",
		.type = OPTION_CHOICE,
		.choices = format_names,
		.field = offsetof(struct backup_options, format),
		.initial = "raw",
		.arg = "raw|delta",
		.help = "one image, or a file for each backup",
		.manual =
			"C<raw> keeps a plain image, into which increments are written.  C<delta> keeps\n"
			"each backup in a file of its own, in the directory TARGET, which is made if\n"
			"it is not there; C<nbdloop restore> puts them together.\n",
	},
	{
		.name = "state",
		.type = OPTION_STRING,
		.field = offsetof(struct backup_options, state),
		.arg = "FILE",
		.help = "where to keep what the target is a copy of",
		.manual =
			"The file that tells what the target is a copy of.  For a URI it must be named\n"
			"if increments are to be possible.  A file has its state in TARGET.state, and a\n"
			"delta has it in itself.\n",
	},
	OPTION_SWITCH(
		"verify", 0, offsetof(struct backup_options, verify),
		"read all that was copied again, and compare",
		"After the copy, read it again from both sides, and compare.  The source must\n"
		"not change meanwhile.\n"),
	OPTION_SWITCH(
		"force", 0, offsetof(struct backup_options, copy.force),
		"replace a file that is something else",
		"Replace a file that is no backup, or the backup of another source.  With\n"
		"I<--incremental>: the source is the same disk, though its URI is another one.\n"),
	COPY_OPTION_ROWS(struct backup_options, copy),
	{.name = NULL},
};

static bool
check_options(const struct backup_options *options, const char *source, const char *target,
	      GError **error)
{
	if (!nbd_uri_is(source))
		return failure(error, EINVAL,
			       "%s is no NBD URI: serve the image by nbdloopd -U PATH, and name "
			       "nbd+unix:///?socket=PATH",
			       source);
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
tell_end(const struct backup_job *job, const struct backup_result *result)
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

static bool
run_backup(const struct verb_call *call, GError **error)
{
	const struct backup_options *options = call->options;
	struct backup_result result = {.file = NULL};
	struct progress progress;
	const struct backup_job job = {
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
	done = check_options(options, job.source, job.target, error) &&
	       run_job(&job, options->format, &result, error);
	if (done && options->copy.json)
		tell_end(&job, &result);
	g_free(result.file);
	g_free(result.next);
	return done;
}

const struct verb verb_backup = {
	.name = "backup",
	.help = "copy an export, or what has changed in it, to a file or server",
	.synopsis = "[OPTION]... SOURCE TARGET",
	.summary =
		"Copies the export that the URI SOURCE names, all of it or what has changed, to\n"
		"TARGET: a file, another URI, or, with --format=delta, a directory.",
	.rows = backup_option_rows,
	.least = 2,
	.most = 2,
	.options_size = sizeof(struct backup_options),
	.run = run_backup,
};
