/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop checkpoint: begins and ends checkpoints of a device, or of the exports of an nbdloopd,
 * and lists them.
 */
#include "tool/failure.h"
#include "tool/show/output.h"
#include "tool/verb/asked_server.h"
#include "tool/verb/verb.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

struct checkpoint_options {
	uint64_t granularity; /* bytes; 0: the server's default */
	char *export;         /* NULL: all exports */
	unsigned int json;
};

static const struct option_row checkpoint_option_rows[] = {
	{
		.name = "granularity",
		.type = OPTION_SIZE,
		.field = offsetof(struct checkpoint_options, granularity),
		.min = 4096,
		.max = 1 << 20,
		.arg = "SIZE",
		.help = "create: how finely changes are noted, 4k to 1M (default: 64k)",
	},
	OPTION_TEXT("export", 0, offsetof(struct checkpoint_options, export), "NAME",
		    "only of this export, as SOCKET:EXPORT is (default: of all, at one moment)"),
	OPTION_SWITCH("json", 'J', offsetof(struct checkpoint_options, json), "list: print JSON"),
	{.name = NULL},
};

/* ---- list */

/* The checkpoints of all exports but snapshots, or of one: a copy of each, with its export's name.
 * NULL with an error: there is no such export. */
static json_t *
checkpoints_gather(json_t *status, const char *only, GError **error)
{
	json_t *list = json_array(), *export, *checkpoint;
	bool found = !only;
	size_t i, j;

	json_array_foreach(json_object_get(status, "exports"), i, export)
	{
		json_t *name = json_object_get(export, "name");

		if (only ? g_strcmp0(json_string_value(name), only) != 0
			 : json_object_get(export, "snapshot") != NULL)
			continue;
		found = true;
		json_array_foreach(json_object_get(export, "checkpoints"), j, checkpoint)
		{
			json_t *copy = json_copy(checkpoint);

			json_object_set(copy, "export", name);
			json_array_append_new(list, copy);
		}
	}
	if (found)
		return list;
	json_decref(list);
	failure(error, ENOENT, "there is no export \"%s\"", only);
	return NULL;
}

/* Names the first export of which it is not known what has changed since its checkpoints. */
static bool
check_known(json_t *status, const char *only, GError **error)
{
	json_t *export;
	size_t i;

	json_array_foreach(json_object_get(status, "exports"), i, export)
	{
		const char *name = json_string_value(json_object_get(export, "name"));
		const char *why = json_string_value(json_object_get(export, "changes_problem"));

		if (why && *why && (!only || g_strcmp0(name, only) == 0))
			return failure(error, EIO,
				       "what has changed in export \"%s\" since its checkpoints is "
				       "unknown: %s: take a full backup",
				       name, why);
	}
	return true;
}

static void
print_table(json_t *list)
{
	json_t *checkpoint;
	size_t i;

	if (json_array_size(list) > 0)
		printf("%-20s %-11s %s\n", "BEGUN", "GRANULARITY", "NAME EXPORT");
	json_array_foreach(list, i, checkpoint)
	{
		g_autoptr(GDateTime) begun = g_date_time_new_from_unix_local(
			json_integer_value(json_object_get(checkpoint, "begun")));
		g_autofree char *when = begun ? g_date_time_format(begun, "%F %T") : NULL;
		g_autofree char *export = output_plain(
			json_string_value(json_object_get(checkpoint, "export")), false);

		printf("%-20s %-11" PRId64 " %s %s%s\n", when ? when : "?",
		       (int64_t)json_integer_value(json_object_get(checkpoint, "granularity")),
		       json_string_value(json_object_get(checkpoint, "name")), export,
		       json_is_true(json_object_get(checkpoint, "unknown")) ? " (unknown)" : "");
	}
}

static bool
checkpoints_list(const struct asked_server *server, const struct checkpoint_options *options,
		 GError **error)
{
	const char *only = options->export ?: server->export;
	json_auto_t *status = asked_server_ask(server, "status", error);
	json_auto_t *found = status ? checkpoints_gather(status, only, error) : NULL;

	if (!found)
		return false;
	if (options->json)
		output_json(stdout, found, true);
	else
		print_table(found);
	return check_known(status, only, error);
}

/* ---- create and delete */

static bool
checkpoints_change(const struct asked_server *server, const char *action, const char *name,
		   const struct checkpoint_options *options, GError **error)
{
	const char *export = options->export ?: server->export;
	g_autoptr(GString) request = g_string_new(NULL);
	json_auto_t *answer = NULL;

	if (!request_word("NAME", name, error) ||
	    (options->export && !request_line("--export", options->export, error)))
		return false;
	g_string_printf(request, "checkpoint %s %s", action, name);
	if (options->granularity)
		g_string_append_printf(request, " granularity=%" PRIu64, options->granularity);
	if (export)
		g_string_append_printf(request, " export=%s", export);
	answer = asked_server_ask(server, request->str, error);
	return answer != NULL;
}

/* Whether the action, the options and the number of operands agree. */
static bool
checkpoint_check(const struct verb_call *call, GError **error)
{
	const struct checkpoint_options *options = call->options;
	const char *action = call->operands[0];
	bool lists = g_str_equal(action, "list"), creates = g_str_equal(action, "create");

	if (!lists && !creates && !g_str_equal(action, "delete"))
		return failure(error, EINVAL,
			       "there is no action \"%s\": it is create, list or delete", action);
	if (lists && call->count > 2)
		return failure(error, EINVAL, "list takes no NAME");
	if (!lists && call->count < 3)
		return failure(error, EINVAL, "NAME is missing: %s needs it", action);
	if (options->granularity && !creates)
		return failure(error, EINVAL, "--granularity is for create");
	if (!lists && options->json)
		return failure(error, EINVAL, "--json is for list");
	return !options->export || !asked_server_names_export(call->operands[1]) ||
	       failure(error, EINVAL, "an export is named twice: leave out --export=%s",
		       options->export);
}

static bool
run_checkpoint(const struct verb_call *call, GError **error)
{
	const struct checkpoint_options *options = call->options;
	const char *action = call->operands[0];
	struct asked_server server;
	bool done = asked_server_find(&server, call->operands[1], error);

	if (done && g_str_equal(action, "list"))
		done = checkpoints_list(&server, options, error);
	else if (done)
		done = checkpoints_change(&server, action, call->operands[2], options, error);
	asked_server_fini(&server);
	return done;
}

const struct verb verb_checkpoint = {
	.name = "checkpoint",
	.help = "note from now on what changes, for increments of backups",
	.synopsis = "[OPTION]... create|list|delete DEVICE|SOCKET|[SOCKET:]EXPORT [NAME]",
	.summary =
		"Begins, lists or ends checkpoints of a device, of all exports of an nbdloopd, or "
		"of one (nbdloop-export(8) says how to name it). From a checkpoint on, the server notes what changes.",
	.rows = checkpoint_option_rows,
	.least = 2,
	.most = 3,
	.options_size = sizeof(struct checkpoint_options),
	.check = checkpoint_check,
	.run = run_checkpoint,
};
