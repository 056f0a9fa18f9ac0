/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop snapshot: makes a read-only export of what a device, or an export of an nbdloopd, holds
 * at this moment; and removes one.
 */
#include "tool/failure.h"
#include "tool/verb/snapshot_request.h"
#include "tool/verb/verb.h"

#include <errno.h>
#include <stdio.h>

struct snapshot_verb_options {
	struct snapshot_options how;
	char *checkpoint; /* NULL: none */
	unsigned int all, remove;
};

static const struct option_row snapshot_option_rows[] = {
	OPTION_TEXT("checkpoint", 0, offsetof(struct snapshot_verb_options, checkpoint), "NAME",
		    "begin the checkpoint NAME at the same moment"),
	OPTION_SWITCH("all", 'a', offsetof(struct snapshot_verb_options, all),
		      "copy each export of the server at one moment, as EXPORT@NEW"),
	SNAPSHOT_OPTION_ROWS(struct snapshot_verb_options, how),
	{
		.name = "expire",
		.type = OPTION_UINT,
		.field = offsetof(struct snapshot_verb_options, how.expire),
		.max = INT32_MAX,
		.arg = "SECONDS",
		.help = "remove it after this time; 0 means never (default: 0)",
	},
	OPTION_SWITCH("remove", 0, offsetof(struct snapshot_verb_options, remove),
		      "remove the snapshot of that name"),
	{.name = NULL},
};

static void
print_uri(json_t *export)
{
	const char *uri = json_string_value(json_object_get(export, "uri"));

	if (uri)
		printf("%s\n", uri);
}

static bool
snapshot_verb_make(const struct asked_server *server, const struct verb_call *call, GError **error)
{
	const struct snapshot_verb_options *options = call->options;
	const struct snapshot_request request = {
		.name = call->operands[1],
		.origin = server->export ?: call->operands[2],
		.checkpoint = options->checkpoint,
		.all = options->all,
	};
	json_auto_t *answer = NULL;
	json_t *export;
	size_t i;

	answer = snapshot_make(server, &options->how, &request, error);
	if (!answer)
		return false;
	print_uri(answer);
	json_array_foreach(json_object_get(answer, "exports"), i, export) print_uri(export);
	return true;
}

/* Whether the export is a snapshot of that name, and of that export (NULL: of any); other exports
 * are not to be removed. */
static bool
snapshot_is_named(json_t *export, const char *name, const char *of, bool all)
{
	const char *found = json_string_value(json_object_get(export, "name"));
	json_t *snapshot = json_object_get(export, "snapshot");
	const char *origin = json_string_value(json_object_get(snapshot, "of"));
	g_autofree char *full = all && origin ? g_strconcat(origin, "@", name, NULL) : NULL;

	return snapshot && (!of || g_strcmp0(origin, of) == 0) &&
	       g_strcmp0(found, full ? full : name) == 0;
}

static bool
remove_snapshots(const struct asked_server *server, const struct verb_call *call, GError **error)
{
	const struct snapshot_verb_options *options = call->options;
	const char *name = call->operands[1];
	json_auto_t *status = NULL;
	bool found = false;
	json_t *export;
	size_t i;

	if (!request_line("NEW", name, error))
		return false;
	status = asked_server_ask(server, "status", error);
	if (!status)
		return false;
	json_array_foreach(json_object_get(status, "exports"), i, export)
	{
		if (!snapshot_is_named(export, name, server->export, options->all))
			continue;
		found = true;
		if (!snapshot_remove(server, export, NULL, error))
			return false;
	}
	return found ||
	       failure(error, ENOENT, "%s has no snapshot \"%s\"", call->operands[0], name);
}

static bool
snapshot_check(const struct verb_call *call, GError **error)
{
	const struct snapshot_verb_options *options = call->options;
	const bool named = asked_server_names_export(call->operands[0]), twice = call->count > 2;

	if (named && twice)
		return failure(error, EINVAL, "an export is named twice: leave out \"%s\"",
			       call->operands[2]);
	if (options->remove &&
	    (options->how.scratch || options->how.scratch_size || options->how.expire ||
	     options->how.freeze || options->checkpoint || twice))
		return failure(error, EINVAL,
			       "--remove takes the name of a snapshot, and nothing else");
	return options->remove || !options->all || (!named && !twice) ||
	       failure(error, EINVAL, "--all takes no EXPORT: it is for all of them");
}

static bool
run_snapshot(const struct verb_call *call, GError **error)
{
	const struct snapshot_verb_options *options = call->options;
	struct asked_server server;
	bool done = asked_server_find(&server, call->operands[0], error) &&
		    (options->remove ? remove_snapshots(&server, call, error)
				     : snapshot_verb_make(&server, call, error));

	asked_server_fini(&server);
	return done;
}

const struct verb verb_snapshot = {
	.name = "snapshot",
	.help = "make a read-only export of what a device holds now",
	.synopsis = "[OPTION]... DEVICE|[SOCKET:]EXPORT NEW",
	.summary =
		"Makes a read-only export, NEW, of what a device holds at this moment, or an export of an nbdloopd "
		"(nbdloop-export(8) says how to name it; with --all, name a SOCKET). Prints the URI of a device's snapshot.",
	.rows = snapshot_option_rows,
	.least = 2,
	.most = 3,
	.options_size = sizeof(struct snapshot_verb_options),
	.check = snapshot_check,
	.run = run_snapshot,
};
