/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop layer: looks at a layer that no server writes to, checks it, and gives it another base or
 * its base its bytes.
 */
#include "tool/backup/interruption.h"
#include "tool/backup/progress.h"
#include "tool/failure.h"
#include "tool/verb/layer_show.h"
#include "tool/verb/verb.h"

#include "engine/layer/layer_commit.h"
#include "engine/layer/layer_rebase.h"
#include "engine/layer/layer_report.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct layer_options {
	char *base, *base_path;
	unsigned int json, repair, force;
};

static const struct option_row layer_option_rows[] = {
	OPTION_SWITCH("json", 'J', offsetof(struct layer_options, json),
		      "info, check: print JSON; others: print progress as lines of JSON"),
	OPTION_SWITCH("repair", 'r', offsetof(struct layer_options, repair),
		      "check: put right what can be put right without a loss"),
	OPTION_TEXT("base", 'b', offsetof(struct layer_options, base), "FILE",
		    "rebase: the new base"),
	OPTION_TEXT("base-path", 0, offsetof(struct layer_options, base_path), "DIR",
		    "bases may lie in this directory, too, or in one of several, separated by "
		    "colons"),
	OPTION_SWITCH("force", 'f', offsetof(struct layer_options, force),
		      "rebase: compare nothing; commit: also if other layers stand on the base"),
	{.name = NULL},
};

/* A call of the engine, which has made `why` if it has failed with `r`. */
static bool
layer_end_call(int r, const char *why, GError **error)
{
	return r == 0 || failure(error, -r, "%s", why ? why : strerror(-r));
}

/* ---- info and check */

static bool
run_layer_info(const struct layer_wish *wish, const struct layer_options *options, GError **error)
{
	struct layer_report *report = NULL;
	char *CLEANUP_FREE why = NULL;
	int r = layer_report_new(wish, false, &report, &why);

	if (r == 0)
		layer_show_info(report, options->json);
	layer_report_free(report);
	return layer_end_call(r, why, error);
}

/* Says how it is, and, by the error's number, how check ends: layer_exit_status(). */
static bool
layer_judge(const char *path, const struct layer_report *report, GError **error)
{
	if (layer_show_count(report, LAYER_DAMAGED))
		return failure(error, EBADMSG, "%s: it can't be used as it is", path);
	if (layer_show_count(report, LAYER_UNKNOWN))
		return failure(error, EIO, "%s: not all of it could be checked", path);
	if (layer_show_count(report, LAYER_UNTIDY))
		return failure(error, EUCLEAN, "%s: nothing is lost, but something is to be done",
			       path);
	return true;
}

static bool
run_layer_check(const struct layer_wish *wish, const struct layer_options *options, GError **error)
{
	struct layer_report *report = NULL;
	char *CLEANUP_FREE why = NULL;
	bool good;
	int r = layer_report_new(wish, true, &report, &why);

	if (r == 0 && options->repair && !layer_show_count(report, LAYER_DAMAGED) &&
	    layer_show_count(report, LAYER_UNTIDY)) {
		layer_report_free(report);
		report = NULL;
		r = layer_repair(wish, &why);
		if (r == 0)
			r = layer_report_new(wish, true, &report, &why);
	}
	if (r < 0)
		return layer_end_call(r, why, error);
	layer_show_check(report, options->json);
	good = layer_judge(wish->path, report, error);
	layer_report_free(report);
	return good;
}

/* As qemu-img check ends. */
static int
layer_exit_status(const GError *error)
{
	return failure_is(error, EBADMSG) ? 2 : failure_is(error, EUCLEAN) ? 3 : EXIT_FAILURE;
}

/* ---- commit, flatten and rebase */

static int
layer_step(void *data, uint64_t done, uint64_t total)
{
	struct progress *progress = data;

	if (!progress->total)
		progress_begin(progress, progress->step, total);
	progress_add(progress, done - progress->done);
	return interruption_seen() ? -EINTR : 0;
}

static bool
layer_work(const char *action, const struct layer_wish *wish, const struct layer_options *options,
	   GError **error)
{
	struct progress progress = {.form = options->json           ? PROGRESS_JSON
					    : isatty(STDERR_FILENO) ? PROGRESS_BAR
								    : PROGRESS_NONE,
				    .out = options->json ? stdout : stderr,
				    .step = action};
	const struct layer_watch watch = {layer_step, &progress};
	char *CLEANUP_FREE why = NULL;
	uint64_t moved;
	int r;

	interruption_watch();
	r = g_str_equal(action, "commit") ? layer_commit(wish, &watch, &moved, &why)
					  : layer_rebase(wish, options->base, &watch, &moved, &why);
	if (progress.total)
		progress_end(&progress);
	if (r == -EINTR && !interruption_check(error)) {
		log_error("%s: %s; the disk is as it was, and the command can be run again",
			  wish->path, (*error)->message);
		interruption_end();
		return false;
	}
	return layer_end_call(r, why, error);
}

/* ---- the verb */

static bool
check_layer_call(const struct verb_call *call, GError **error)
{
	const struct layer_options *options = call->options;
	const char *action = call->operands[0];
	const bool rebases = g_str_equal(action, "rebase"), checks = g_str_equal(action, "check");
	const bool commits = g_str_equal(action, "commit");

	if (!rebases && !checks && !commits && !g_str_equal(action, "info") &&
	    !g_str_equal(action, "flatten"))
		return failure(error, EINVAL,
			       "there is no action \"%s\": it is info, check, commit, flatten or "
			       "rebase",
			       action);
	if (rebases && !options->base)
		return failure(error, EINVAL, "rebase needs --base=FILE");
	if (!rebases && options->base)
		return failure(error, EINVAL, "--base is for rebase");
	if (!checks && options->repair)
		return failure(error, EINVAL, "--repair is for check");
	return rebases || commits || !options->force ||
	       failure(error, EINVAL, "--force is for rebase and commit");
}

static bool
run_layer(const struct verb_call *call, GError **error)
{
	const struct layer_options *options = call->options;
	const char *action = call->operands[0];
	const struct layer_wish wish = {
		.path = call->operands[1],
		.base_path = options->base_path,
		.force = options->force,
		.changed_base = options->force,
		.lock = LOCK_AUTO,
	};

	if (g_str_equal(action, "info"))
		return run_layer_info(&wish, options, error);
	if (g_str_equal(action, "check"))
		return run_layer_check(&wish, options, error);
	return layer_work(action, &wish, options, error);
}

static void
layer_show_more(FILE *out)
{
	fputs("\nActions:\n"
	      "    info LAYER               show its chain of bases, and what each file holds\n"
	      "    check LAYER              look for damage\n"
	      "    commit LAYER             write what it holds into its base, and empty it\n"
	      "    flatten LAYER            take in what it needs of its base, and let go of that\n"
	      "    rebase --base=FILE LAYER stand on another base, with the same contents\n",
	      out);
}

const struct verb verb_layer = {
	.name = "layer",
	.help = "look at a layer, check it, or merge it with its base",
	.synopsis = "[OPTION]... ACTION LAYER",
	.summary =
		"Looks at LAYER, a file of nbdloop clone, and its bases, or changes them while no "
		"server has them.",
	.rows = layer_option_rows,
	.show_more = layer_show_more,
	.least = 2,
	.most = 2,
	.check = check_layer_call,
	.options_size = sizeof(struct layer_options),
	.failure_exit = layer_exit_status,
	.run = run_layer,
};
