/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop backup: copies an export, or an image in use, or what has changed in it.
 */
#include "common/cleanup.h"
#include "common/container_of.h"
#include "common/log.h"
#include "tool/backup/backup.h"
#include "tool/backup/backup_metrics.h"
#include "tool/backup/export_end.h"
#include "tool/backup/interruption.h"
#include "tool/backup/merge.h"
#include "tool/device/image_file.h"
#include "tool/failure.h"
#include "tool/link/nbd_uri.h"
#include "tool/link/server_link.h"
#include "tool/show/output.h"
#include "tool/verb/backup_list.h"
#include "tool/verb/copy_options.h"
#include "tool/verb/served_export.h"
#include "tool/verb/snapshot_request.h"
#include "tool/verb/verb.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * ---- a live source: an image in use, of a device of nbdloop or by nbdloopd's control socket.
 * What is copied is a snapshot, which is removed in every case; a checkpoint begins at its moment,
 * and stays if the target may belong to it.
 *
 * Names tell which target they are for: "backup-TARGET-RANDOM". So a backup finds what earlier ones
 * that were killed have left, and never that of another target.
 */

struct live_source {
	struct backup_moment moment;
	struct asked_server server;
	struct snapshot_options how;
	char *text;   /* which image it is, for the target's state and for messages */
	char *origin; /* the name of its export */
	char *prefix; /* of the names for this target */
	char *name;   /* of this backup's snapshot and checkpoint */
	json_t *made; /* the status of the snapshot; NULL: there is none */
};

/* What identifies the image. */
struct live_source_wish {
	const char *source; /* DEVICE or SOCKET */
	const char *export; /* NULL: the only one */
	const char *target; /* the path of what tells what the target is a copy of */
	bool checkpoint;    /* the target can belong to one */
};

#define PREFIX     "backup-"
#define PREFIX_TAG 12    /* digits for the target */
#define EXPIRE     86400 /* seconds: a snapshot that a killed backup leaves ends by itself */
#define HOST_MAX   256

/* ---- names */

/* A path that is the same from every directory, whether or not the file is there, and for a
 * directory with or without a slash. */
static char *
live_real_path(const char *path)
{
	g_autofree char *text = g_strdup(path);
	char *CLEANUP_FREE whole = realpath(path, NULL);
	char *CLEANUP_FREE real = NULL;
	g_autofree char *directory = NULL, *base = NULL;

	for (size_t length = strlen(text); length > 1 && text[length - 1] == '/'; length--)
		text[length - 1] = '\0';
	directory = g_path_get_dirname(text);
	base = g_path_get_basename(text);
	real = realpath(directory, NULL);
	return whole ? g_strdup(whole) : g_build_filename(real ? real : directory, base, NULL);
}

/* Two machines may have targets of the same path. */
static char *
prefix_for(const char *target)
{
	char host[HOST_MAX] = "";
	g_autofree char *path = live_real_path(target);
	g_autofree char *text = NULL, *digest = NULL;

	gethostname(host, sizeof(host) - 1);
	text = g_strconcat(host, ":", path, NULL);
	digest = g_compute_checksum_for_string(G_CHECKSUM_SHA256, text, -1);
	return g_strdup_printf(PREFIX "%.*s-", PREFIX_TAG, digest);
}

/* ---- the server's exports */

/* The export of that name; with `snapshots`, it may be one.  NULL: there is none. */
static json_t *
live_find_export(json_t *status, const char *name, bool snapshots)
{
	json_t *export;
	size_t i;

	if (!name)
		return server_link_export(status);
	json_array_foreach(json_object_get(status, "exports"), i, export)
	{
		if ((snapshots || !json_object_get(export, "snapshot")) &&
		    g_strcmp0(json_string_value(json_object_get(export, "name")), name) == 0)
			return export;
	}
	return NULL;
}

static bool
find_origin(struct live_source *live, const struct live_source_wish *wish, GError **error)
{
	const char *name = live->server.export ?: wish->export;
	json_auto_t *status = asked_server_ask(&live->server, "status", error);
	json_t *export = live_find_export(status, name, false);

	if (!status)
		return false;
	if (!export && name)
		return failure(error, ENOENT, "%s has no export \"%s\"",
			       live->server.socket ?: wish->source, name);
	if (!export)
		return served_export_not_one(wish->source, status, error);
	live->origin = g_strdup(json_string_value(json_object_get(export, "name")) ?: "");
	return true;
}

/* "/dev/nbd0", or the path of the control socket with the export's name. */
static char *
text_of(const struct live_source *live)
{
	char *CLEANUP_FREE socket = NULL;

	if (!live->server.socket)
		return g_strconcat("/dev/", live->server.ours.device->name, NULL);
	socket = realpath(live->server.socket, NULL);
	return g_strconcat(socket ? socket : live->server.socket, *live->origin ? ":" : NULL,
			   live->origin, NULL);
}

/* ---- checkpoints that no backup needs */

static void
live_warn(const struct live_source *live, const char *what, const GError *why)
{
	log_warning("%s: %s: %s", live->text, what, why ? why->message : "unknown error");
}

static void
end_checkpoint(struct live_source *live, const char *name)
{
	g_autofree char *request =
		g_strconcat("checkpoint delete ", name, " export=", live->origin, NULL);
	g_autoptr(GError) why = NULL;
	json_auto_t *ended = asked_server_ask(&live->server, request, &why);

	if (!ended)
		live_warn(live, "a checkpoint that no backup needs any more is left", why);
}

/* Ends those of the origin for which `is_over` is true. */
static void
end_checkpoints(struct live_source *live, json_t *status,
		bool (*is_over)(const struct live_source *live, const char *name))
{
	json_t *checkpoint;
	size_t i;

	json_array_foreach(
		json_object_get(live_find_export(status, live->origin, false), "checkpoints"), i,
		checkpoint)
	{
		const char *name = json_string_value(json_object_get(checkpoint, "name"));

		if (name && is_over(live, name))
			end_checkpoint(live, name);
	}
}

/* Whether a backup into this target that was killed has left it, before the target belonged to it:
 * the target's lock says that none is running. */
static bool
is_left(const struct live_source *live, const char *name)
{
	return g_str_has_prefix(name, live->prefix) && g_strcmp0(name, live->moment.has) != 0;
}

/* Whether the checkpoint is one of this target's, which now belongs to another one. A checkpoint
 * that the user has made stays. */
static bool
live_is_older(const struct live_source *live, const char *name)
{
	const char *since = live->moment.since;

	return g_strcmp0(name, live->name) != 0 &&
	       (g_str_has_prefix(name, live->prefix) ||
		(g_str_has_prefix(name, PREFIX) && g_strcmp0(name, since) == 0));
}

/* ---- the moment */

/* True also if it has gone by itself: at its time, or with its server, of which a restarted one is
 * asked again. */
static bool
remove_left_snapshot(struct live_source *live, json_t *export, const char *name, GError **error)
{
	GError *why = NULL;
	json_auto_t *status = NULL;

	if (snapshot_remove(&live->server, export, NULL, &why))
		return true;
	status = asked_server_ask(&live->server, "status", NULL);
	if (!status || live_find_export(status, name, true))
		return failure_pass(error, &why);
	g_error_free(why);
	return true;
}

/* What killed backups into this target have left. A server has a limited number of checkpoints.
 * A target that can't belong to a checkpoint has no lock, either: another backup may be running,
 * and what is left ends at its time. */
static bool
remove_left(struct live_source *live, GError **error)
{
	json_auto_t *status = NULL;
	json_t *export;
	size_t i;

	if (!live->moment.checkpoint)
		return true;
	status = asked_server_ask(&live->server, "status", error);
	json_array_foreach(json_object_get(status, "exports"), i, export)
	{
		const char *name = json_string_value(json_object_get(export, "name"));

		if (name && json_object_get(export, "snapshot") &&
		    g_str_has_prefix(name, live->prefix) &&
		    !remove_left_snapshot(live, export, name, error))
			return false;
	}
	end_checkpoints(live, status, is_left);
	return status;
}

/* A server that was restarted was asked twice: the first one may have begun a checkpoint, which is
 * in its record, and then the second one refuses. */
static void
undo_make(struct live_source *live)
{
	g_autofree char *removal = g_strconcat("remove export=", live->name, NULL);
	g_autofree char *end =
		g_strconcat("checkpoint delete ", live->name, " export=", live->origin, NULL);
	json_auto_t *removed = asked_server_ask(&live->server, removal, NULL);
	json_auto_t *ended = asked_server_ask(&live->server, end, NULL);

	(void)removed, (void)ended; /* mostly, there is neither */
}

static char *
live_make(struct backup_moment *moment, GError **error)
{
	struct live_source *live = container_of(moment, struct live_source, moment);
	const struct snapshot_request request = {
		.name = live->name,
		.origin = live->origin,
		.checkpoint = moment->checkpoint,
		.local = live->server.socket,
	};
	GError *why = NULL;
	const char *uri;

	if (!interruption_check(error) || !remove_left(live, error))
		return NULL;
	live->made = snapshot_make(&live->server, &live->how, &request, &why);
	if (!live->made) {
		if (failure_is(why, EINVAL))
			undo_make(live);
		g_propagate_error(error, why);
		return NULL;
	}
	uri = json_string_value(json_object_get(live->made, "uri"));
	if (uri)
		return g_strdup(uri);
	return FAILURE_NULL(error, EPROTO, "%s doesn't tell where its snapshot is", live->text);
}

/* ---- what is refused */

/* Whether the server has a connection of the target to the image that is copied, by whatever name
 * and socket. */
static bool
has_connection(const struct live_source *live, json_t *status, const struct end *target)
{
	json_t *origin = live_find_export(status, live->origin, false), *connection;
	size_t i;

	json_array_foreach(json_object_get(status, "connections"), i, connection)
	{
		const char *client = json_string_value(json_object_get(connection, "client")),
			   *name = json_string_value(json_object_get(connection, "export"));
		json_t *export = name ? live_find_export(status, name, false) : NULL;

		if (client && export && image_file_is_of_both(origin, export) &&
		    export_end_is_client(target, client))
			return true;
	}
	return false;
}

static bool
may_write(struct backup_moment *moment, const struct end *target, GError **error)
{
	struct live_source *live = container_of(moment, struct live_source, moment);
	json_auto_t *status = asked_server_ask(&live->server, "status", error);

	return status && (!has_connection(live, status, target) ||
			  failure(error, EINVAL, "%s is the source itself", target->name));
}

/* ---- afterwards */

/* After a backup that has ended well, the checkpoints go that the target belonged to before; else
 * the new one goes, unless the target may belong to it. What can't be removed is a warning. */
static void
live_end(struct backup_moment *moment, bool done)
{
	struct live_source *live = container_of(moment, struct live_source, moment);
	g_autoptr(GError) why = NULL, unknown = NULL;
	json_auto_t *status = NULL;

	if (!live->made)
		return;
	if (!snapshot_remove(&live->server, live->made, NULL, &why))
		live_warn(live, "the snapshot is left, and ends at its time", why);
	if (moment->checkpoint && done) {
		status = asked_server_ask(&live->server, "status", &unknown);
		if (!status)
			live_warn(live, "the checkpoint of the last backup is left", unknown);
		end_checkpoints(live, status, live_is_older);
	} else if (moment->checkpoint && !moment->kept) {
		end_checkpoint(live, moment->checkpoint);
	}
}

/* ---- its life */

static void
live_source_close(struct live_source *live)
{
	asked_server_fini(&live->server);
	g_free(live->text);
	g_free(live->origin);
	g_free(live->prefix);
	g_free(live->name);
	g_free(live->moment.has);
	g_free(live->moment.since);
	json_decref(live->made);
}

/* Finds the server and its export. The caller closes it in every case. */
static bool
live_source_open(struct live_source *live, const struct live_source_wish *wish,
		 const struct snapshot_options *how, GError **error)
{
	*live = (struct live_source){
		.how = *how,
		.moment = {.make = live_make, .may_write = may_write, .end = live_end}};
	if (!live->how.expire)
		live->how.expire = EXPIRE;
	if (!asked_server_find(&live->server, wish->source, error) ||
	    !find_origin(live, wish, error))
		return false;
	live->text = text_of(live);
	live->prefix = prefix_for(wish->target);
	live->name = g_strdup_printf("%s%08x%08x", live->prefix, g_random_int(), g_random_int());
	if (wish->checkpoint)
		live->moment.checkpoint = live->name;
	return true;
}

enum format {
	FORMAT_RAW,
	FORMAT_DELTA,
};

static const char *const format_names[] = {"raw", "delta", NULL};

struct backup_options {
	struct copy_verb_options copy;
	unsigned int incremental; /* enum tristate */
	unsigned int verify;
	unsigned int format; /* enum format */
	char *bitmap, *next_bitmap, *state, *metrics;
	struct retention retention;
	/* Of an image in use. */
	char *export;
	struct snapshot_options snapshot;
};

#define KEEP_OPTION_ROW(name_, member_, arg_, help_)                                               \
	{                                                                                          \
		.name = (name_), .type = OPTION_UINT,                                              \
		.field = offsetof(struct backup_options, retention.member_), .min = 1,             \
		.max = INT32_MAX, .arg = (arg_), .help = (help_)                                   \
	}

static const struct option_row backup_option_rows[] = {
	{
		.name = "incremental",
		.letter = 'i',
		OPTION_OFF_ON_AUTO,
		.field = offsetof(struct backup_options, incremental),
		.alone = "on",
		.help = "copy only what has changed since the last backup into the target; auto: all, if there is none",
	},
	OPTION_TEXT("bitmap", 0, offsetof(struct backup_options, bitmap), "NAME",
		    "the checkpoint (dirty bitmap) that the target belongs to"),
	OPTION_TEXT("next-bitmap", 0, offsetof(struct backup_options, next_bitmap), "NAME",
		    "--incremental: the checkpoint that the target belongs to afterwards"),
	{
		.name = "format",
		.type = OPTION_CHOICE,
		.choices = format_names,
		.field = offsetof(struct backup_options, format),
		.initial = "raw",
		.arg = "raw|delta",
		.help = "one image, or a file for each backup",
	},
	KEEP_OPTION_ROW("keep", last, "N",
			"--format=delta: keep the last N backups, and merge older ones"),
	KEEP_OPTION_ROW("keep-daily", daily, "DAYS",
			"--format=delta: keep the last backup of each of so many days"),
	KEEP_OPTION_ROW("keep-weekly", weekly, "WEEKS",
			"--format=delta: keep the last backup of each of so many weeks"),
	OPTION_TEXT("state", 0, offsetof(struct backup_options, state), "FILE",
		    "file that says what the target is a copy of"),
	OPTION_TEXT("metrics", 0, offsetof(struct backup_options, metrics), "FILE",
		    "write the result as metrics for node_exporter"),
	OPTION_TEXT(
		"export", 0, offsetof(struct backup_options, export), "NAME",
		"SOCKET: the export to copy, as SOCKET:EXPORT names it (default: the only one)"),
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
		      "replace a file that is no backup of this source"),
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
	if (options->export && asked_server_names_export(source))
		return failure(error, EINVAL, "an export is named twice: leave out --export=%s",
			       options->export);
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
	if (options->format != FORMAT_DELTA && retention_is_wanted(&options->retention))
		return failure(error, EINVAL,
			       "--keep, --keep-daily and --keep-weekly are for --format=delta");
	if (options->metrics && nbd_uri_is(target) && !options->state)
		return failure(error, EINVAL,
			       "--metrics needs --state=FILE for a target that is a URI: it says "
			       "when the last good backup was");
	return !options->state || nbd_uri_is(target) ||
	       failure(error, EINVAL, "--state is for a target that is a URI");
}

/* The last line of --json. */
static void
backup_tell_end(const struct backup_job *job, const struct backup_result *result)
{
	json_t *line =
		json_pack("{ss ss ss sb sI sI ss* ss*}", "event", "end", "source", job->source,
			  "target", job->target, "incremental", (int)result->incremental, "data",
			  (json_int_t)job->progress->copied, "zeroes", (json_int_t)result->zeroes,
			  "bitmap", result->next, "file", result->file);

	if (line)
		output_json(job->progress->out, line, false);
	json_decref(line);
}

static bool
run_job(const struct backup_job *job, const struct backup_options *options,
	struct backup_result *result, GError **error)
{
	const bool done = options->format == FORMAT_DELTA ? backup_to_directory(job, result, error)
			  : nbd_uri_is(job->target)       ? backup_to_export(job, result, error)
							  : backup_to_file(job, result, error);

	if (done && options->copy.json)
		backup_tell_end(job, result);
	return done;
}

/* A command that was interrupted says so, and ends as the signal ends a program. */
static bool
backup_end_interrupted(bool done, GError **error)
{
	if (!done && failure_is(*error, EINTR) && interruption_seen()) {
		log_error("%s", (*error)->message);
		interruption_end();
	}
	return done;
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
		done = run_job(job, options, result, error);
	}
	live_source_close(&live);
	return done;
}

/* ---- what can be done with backups, in the place of a source */

/* Whether all options have their defaults, except --json, --verify and, if it `merges`, those of a
 * merge. */
static bool
backup_options_are_plain(const struct backup_options *options, bool merges)
{
	struct backup_options plain;

	/* Both have zeroes between their members. */
	memset(&plain, 0, sizeof(plain));
	options_init(backup_option_rows, &plain);
	plain.copy.json = options->copy.json;
	plain.verify = options->verify;
	if (merges)
		plain.retention = options->retention;
	return memcmp(&plain, options, sizeof(plain)) == 0;
}

static bool
backup_check(const struct verb_call *call, GError **error)
{
	const struct backup_options *options = call->options;
	const char *source = call->operands[0];
	const bool merges = strcmp(source, "merge") == 0;

	if (strcmp(source, "list") == 0)
		return backup_options_are_plain(options, false) ||
		       failure(error, EINVAL, "list takes no option but --verify and --json");
	if (!merges)
		return backup_check_options(options, source, call->operands[1], error);
	if (!backup_options_are_plain(options, true))
		return failure(error, EINVAL,
			       "merge takes no option but --keep, --keep-daily, --keep-weekly, "
			       "--verify and --json");
	return retention_is_wanted(&options->retention) ||
	       failure(error, EINVAL,
		       "merge: say what is to be kept: --keep, --keep-daily or --keep-weekly");
}

static bool
run_backup_list(const struct backup_options *options, const char *target, GError **error)
{
	/* What --json prints is the list. */
	const struct copy_verb_options shown = {.json = false};
	struct progress progress;

	copy_verb_progress(&shown, &progress);
	if (options->verify)
		interruption_watch();
	return backup_end_interrupted(
		backup_list(target, options->copy.json, options->verify ? &progress : NULL, error),
		error);
}

static bool
run_backup_merge(const struct backup_options *options, const char *target, GError **error)
{
	struct progress progress;
	const struct merge_job job = {
		.directory = target,
		.retention = options->retention,
		.verify = options->verify,
		.progress = &progress,
	};

	if (!g_file_test(target, G_FILE_TEST_IS_DIR))
		return failure(error, ENOTDIR, "%s is no directory of backups", target);
	copy_verb_progress(&options->copy, &progress);
	interruption_watch();
	return backup_end_interrupted(merge_directory(&job, error), error);
}

/* Writes the metrics of a run; `done`: it has ended well.  Returns whether both are so. */
static bool
backup_tell_metrics(const struct backup_options *options, struct backup_metrics *metrics,
		    uint64_t copied, bool done, GError **error)
{
	g_autoptr(GError) why = NULL;

	backup_metrics_note_target(metrics, options->state);
	metrics->ended = (uint64_t)(g_get_real_time() / G_USEC_PER_SEC);
	metrics->failed = !done;
	metrics->data = copied;
	if (backup_metrics_write(metrics, options->metrics, &why))
		return done;
	if (done) {
		g_prefix_error(&why, "the backup is complete, but its metrics were not written: ");
		return failure_pass(error, &why);
	}
	log_error("%s", why->message);
	return false;
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
		.or_full = options->incremental == TRISTATE_AUTO,
		.verify = options->verify,
		.force = options->copy.force,
		.bitmap = options->bitmap,
		.next_bitmap = options->next_bitmap,
		.state = options->state,
		.retention = options->retention,
		.connections = options->copy.connections,
		.seconds = options->copy.seconds,
		.progress = &progress,
	};
	struct backup_metrics metrics = {
		.source = job.source,
		.target = job.target,
		.begun = (uint64_t)(g_get_real_time() / G_USEC_PER_SEC),
	};
	bool done;

	if (strcmp(job.source, "list") == 0)
		return run_backup_list(options, job.target, error);
	if (strcmp(job.source, "merge") == 0)
		return run_backup_merge(options, job.target, error);
	copy_verb_progress(&options->copy, &progress);
	interruption_watch();
	done = nbd_uri_is(job.source) ? run_job(&job, options, &result, error)
				      : run_live(&job, options, &result, error);
	g_free(result.file);
	g_free(result.next);
	if (options->metrics)
		done = backup_tell_metrics(options, &metrics, progress.copied, done, error);
	return backup_end_interrupted(done, error);
}

static void
backup_show_more(FILE *out)
{
	fprintf(out,
		"\nActions, in place of SOURCE:\n"
		"    list [--verify] TARGET\n"
		"        show the backups in TARGET; --verify: read them, and say which can be restored\n"
		"    merge OPTION... TARGET\n"
		"        merge the backups that --keep, --keep-daily and --keep-weekly do not keep\n");
}

const struct verb verb_backup = {
	.name = "backup",
	.help = "copy a device or export, or what has changed in it",
	.synopsis = "[OPTION]... SOURCE TARGET",
	.summary =
		"Copies SOURCE to TARGET: all of it, or what has changed. SOURCE is a DEVICE of nbdloop or an "
		"export of an nbdloopd, [SOCKET:]EXPORT, as they are now, or the URI of an export. TARGET is a file, the "
		"URI of an export, or, with --format=delta, a directory.",
	.rows = backup_option_rows,
	.show_more = backup_show_more,
	.least = 2,
	.most = 2,
	.options_size = sizeof(struct backup_options),
	.check = backup_check,
	.run = run_backup,
};
