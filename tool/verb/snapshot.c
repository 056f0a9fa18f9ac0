/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop snapshot: makes a read-only export of what a device, or an export of an nbdloopd, holds
 * at this moment; and removes one.
 */
#include "tool/device/frozen_mounts.h"
#include "tool/failure.h"
#include "tool/verb/asked_server.h"
#include "tool/verb/verb.h"

#include "common/unit.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

struct snapshot_options {
	char *scratch;         /* a directory, or NULL */
	uint64_t scratch_size; /* bytes; 0: no limit */
	unsigned int expire;   /* seconds; 0: no limit */
	unsigned int freeze;
	unsigned int remove;
};

static const struct option_row snapshot_option_rows[] = {
	{
		.name = "scratch",
		.type = OPTION_STRING,
		.field = offsetof(struct snapshot_options, scratch),
		.arg = "DIR",
		.help = "directory of the scratch file (default: that of the image)",
		.manual = "The directory of the file that holds what the image has no longer, on\n"
			  "the server's machine (default: that of the image; for a block device,\n"
			  "F</var/tmp>).\n",
	},
	{
		.name = "scratch-size",
		.type = OPTION_SIZE,
		.field = offsetof(struct snapshot_options, scratch_size),
		.arg = "SIZE",
		.help = "limit of that file; 0 means no limit (default: 0)",
		.manual =
			"A limit of that file, unless it is a clone; 0 means no limit (the\n"
			"default).  When it is reached, the snapshot can't be read any more, and\n"
			"the device works on.\n",
	},
	{
		.name = "expire",
		.type = OPTION_UINT,
		.field = offsetof(struct snapshot_options, expire),
		.max = INT32_MAX,
		.arg = "SECONDS",
		.help = "remove it after this time; 0 means never (default: 0)",
		.manual = "Remove the snapshot after this time; 0 means never (the default).\n",
	},
	OPTION_SWITCH(
		"freeze", 0, offsetof(struct snapshot_options, freeze),
		"sync and freeze the mounted file systems of the device meanwhile",
		"Sync and freeze the mounted file systems of the device and its partitions,\n"
		"so that the copy is clean; writes to them wait until there is a snapshot.\n"
		"They are thawed after ten seconds in any case, and then there is no snapshot.\n"
		"They are also thawed when C<nbdloop> is killed; a snapshot that the server\n"
		"makes after that is not clean.  File systems on LVM or RAID on the device, and\n"
		"those that only other mount namespaces have, are not frozen.\n"),
	OPTION_SWITCH("remove", 0, offsetof(struct snapshot_options, remove),
		      "remove the snapshot of that name",
		      "Remove the snapshot of that name.  Its readers are disconnected.\n"),
	{.name = NULL},
};

/* The request, or NULL.  Caller frees. */
static char *
compose(const struct snapshot_options *options, const char *name, const char *origin,
	GError **error)
{
	g_autoptr(GString) request = g_string_new("snapshot ");
	g_autofree char *scratch = NULL;

	/* The server has another working directory. */
	if (options->scratch)
		scratch = g_canonicalize_filename(options->scratch, NULL);
	if (!request_word("NEW", name, error) ||
	    (scratch && !request_word("--scratch", scratch, error)) ||
	    (origin && !request_line("EXPORT", origin, error)))
		return NULL;
	g_string_append(request, name);
	if (scratch)
		g_string_append_printf(request, " scratch=%s", scratch);
	if (options->scratch_size)
		g_string_append_printf(request, " scratch-size=%" PRIu64, options->scratch_size);
	if (options->expire)
		g_string_append_printf(request, " expire=%u", options->expire);
	if (origin)
		g_string_append_printf(request, " export=%s", origin);
	return g_string_free(g_steal_pointer(&request), FALSE);
}

/* The same with the device's file systems frozen.  A snapshot that came too late is removed. */
static json_t *
ask_frozen(const struct asked_server *server, const char *request, const char *name, GError **error)
{
	g_autofree char *removal = g_strconcat("remove export=", name, NULL);
	struct frozen_mounts frozen;
	json_t *export;

	if (!frozen_mounts_begin(&frozen, server->ours.device, error))
		return NULL;
	export = asked_server_ask(server, request, error);
	if (frozen_mounts_end(&frozen, export ? error : NULL) || !export)
		return export;
	json_decref(export);
	json_decref(asked_server_ask(server, removal, NULL));
	return NULL;
}

static bool
make(const struct asked_server *server, const struct verb_call *call, GError **error)
{
	const struct snapshot_options *options = call->options;
	const char *name = call->operands[1];
	g_autofree char *request =
		compose(options, name, call->count > 2 ? call->operands[2] : NULL, error);
	json_auto_t *export = NULL;
	const char *uri;

	if (options->freeze && server->socket)
		return failure(error, EINVAL,
			       "--freeze is for a device, whose file systems are "
			       "mounted here");
	if (request && options->freeze)
		export = ask_frozen(server, request, name, error);
	else if (request)
		export = asked_server_ask(server, request, error);

	if (!export)
		return false;
	uri = json_string_value(json_object_get(export, "uri"));
	if (uri)
		printf("%s\n", uri);
	return true;
}

/* Whether the status has a snapshot of that name, since other exports are not to be removed. */
static bool
has_snapshot(json_t *status, const char *name)
{
	json_t *export;
	size_t i;

	json_array_foreach(json_object_get(status, "exports"), i, export)
	{
		const char *found = json_string_value(json_object_get(export, "name"));

		if (g_strcmp0(found, name) == 0 && json_object_get(export, "snapshot"))
			return true;
	}
	return false;
}

static bool
remove_snapshot(const struct asked_server *server, const struct verb_call *call, GError **error)
{
	const struct snapshot_options *options = call->options;
	const char *name = call->operands[1];
	g_autofree char *request = g_strconcat("remove export=", name, NULL);
	json_auto_t *status = NULL, *removed = NULL;

	if (options->scratch || options->scratch_size || options->expire || options->freeze ||
	    call->count > 2)
		return failure(error, EINVAL,
			       "--remove takes the name of a snapshot, and nothing else");
	if (!request_line("NEW", name, error))
		return false;
	status = asked_server_ask(server, "status", error);
	if (!status)
		return false;
	if (!has_snapshot(status, name))
		return failure(error, ENOENT, "%s has no snapshot \"%s\"", call->operands[0], name);
	removed = asked_server_ask(server, request, error);
	return removed != NULL;
}

static bool
run_snapshot(const struct verb_call *call, GError **error)
{
	const struct snapshot_options *options = call->options;
	struct asked_server server;
	bool done = asked_server_find(&server, call->operands[0], error) &&
		    (options->remove ? remove_snapshot(&server, call, error)
				     : make(&server, call, error));

	asked_server_fini(&server);
	return done;
}

const struct verb verb_snapshot = {
	.name = "snapshot",
	.help = "make a read-only export of what a device holds now",
	.synopsis = "[OPTION]... DEVICE|SOCKET NEW [EXPORT]",
	.summary =
		"Makes the export NEW of what a device, or an export of an nbdloopd with this control "
		"socket, holds at this moment; prints its URI if it is a device's.",
	.rows = snapshot_option_rows,
	.least = 2,
	.most = 3,
	.options_size = sizeof(struct snapshot_options),
	.run = run_snapshot,
};
