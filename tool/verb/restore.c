/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop restore: makes an image of backups.
 */
#include "tool/backup/restore.h"

#include "tool/backup/backup_date.h"
#include "tool/failure.h"
#include "tool/show/output.h"
#include "tool/verb/copy_options.h"
#include "tool/verb/verb.h"

#include <errno.h>
#include <stdio.h>

struct restore_options {
	struct copy_verb_options copy;
	char *until;
};

static const struct option_row restore_option_rows[] = {
	OPTION_TEXT("until", 0, offsetof(struct restore_options, until), "N|DATE",
		    "of a directory: the last backup, by number or date, or yesterday"),
	OPTION_SWITCH("force", 0, offsetof(struct restore_options, copy.force),
		      "replace an existing file"),
	COPY_OPTION_ROWS(struct restore_options, copy),
	{.name = NULL},
};

/* *until: a number, or a date's seconds since 1970. */
static bool
restore_parse_until(const struct restore_options *options, uint64_t *until, GError **error)
{
	const uint64_t now = (uint64_t)(g_get_real_time() / G_USEC_PER_SEC);

	if (!options->until)
		return true;
	if (!backup_date_is(options->until))
		return g_ascii_string_to_unsigned(options->until, 10, 0, G_MAXUINT32, until,
						  NULL) ||
		       failure(error, EINVAL, "--until=%s: there is no such backup",
			       options->until);
	if (backup_date_parse(options->until, now, until, error))
		return true;
	g_prefix_error(error, "--until=");
	return false;
}

static bool
restore_check(const struct verb_call *call, GError **error)
{
	uint64_t until;

	return restore_parse_until(call->options, &until, error);
}

static bool
run_restore(const struct verb_call *call, GError **error)
{
	const struct restore_options *options = call->options;
	json_auto_t *line = NULL;
	struct progress progress;
	struct restore_job job = {
		.source = call->operands[0],
		.target = call->operands[1],
		.until = options->until,
		.until_date = options->until && backup_date_is(options->until),
		.force = options->copy.force,
		.connections = options->copy.connections,
		.seconds = options->copy.seconds,
		.progress = &progress,
	};

	copy_verb_progress(&options->copy, &progress);
	if (!restore_parse_until(options, &job.until_number, error) || !restore_run(&job, error))
		return false;
	if (options->copy.json)
		line = json_pack("{ss ss ss sI}", "event", "end", "source", job.source, "target",
				 job.target, "data", (json_int_t)progress.copied);
	if (line)
		output_json(progress.out, line, false);
	return true;
}

const struct verb verb_restore = {
	.name = "restore",
	.help = "make an image of backups",
	.synopsis = "[OPTION]... SOURCE TARGET",
	.summary =
		"Makes an image, TARGET, of the backups in SOURCE: a directory of deltas, or a raw backup. TARGET "
		"is a file, or the URI of an export.",
	.rows = restore_option_rows,
	.least = 2,
	.most = 2,
	.options_size = sizeof(struct restore_options),
	.check = restore_check,
	.run = run_restore,
};
