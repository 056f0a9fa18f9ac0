/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/verb/snapshot_request.h"

#include "tool/device/frozen_mounts.h"
#include "tool/failure.h"

#include <errno.h>
#include <inttypes.h>

/* The request as a line, or NULL.  Caller frees. */
static char *
snapshot_request_compose(const struct snapshot_options *options,
			 const struct snapshot_request *request, GError **error)
{
	g_autoptr(GString) line = g_string_new("snapshot ");
	g_autofree char *scratch = NULL;

	/* The server has another working directory. */
	if (options->scratch)
		scratch = g_canonicalize_filename(options->scratch, NULL);
	if (!request_word("NEW", request->name, error) ||
	    (scratch && !request_word("--scratch", scratch, error)) ||
	    (request->checkpoint && !request_word("--checkpoint", request->checkpoint, error)) ||
	    (request->origin && !request_line("EXPORT", request->origin, error)))
		return NULL;
	g_string_append(line, request->name);
	if (scratch)
		g_string_append_printf(line, " scratch=%s", scratch);
	if (options->scratch_size)
		g_string_append_printf(line, " scratch-size=%" PRIu64, options->scratch_size);
	if (options->expire)
		g_string_append_printf(line, " expire=%u", options->expire);
	if (request->checkpoint)
		g_string_append_printf(line, " checkpoint=%s", request->checkpoint);
	if (request->local)
		g_string_append(line, " local");
	if (request->all)
		g_string_append(line, " all");
	if (request->origin)
		g_string_append_printf(line, " export=%s", request->origin);
	return g_string_free(g_steal_pointer(&line), FALSE);
}

bool
snapshot_remove(const struct asked_server *server, json_t *snapshot, const char *checkpoint,
		GError **error)
{
	const char *name = json_string_value(json_object_get(snapshot, "name"));
	json_t *facts = json_object_get(snapshot, "snapshot");
	const char *origin = json_string_value(json_object_get(facts, "of"));
	g_autofree char *removal = g_strconcat("remove export=", name, NULL);
	json_auto_t *removed = asked_server_ask(server, removal, error);
	json_auto_t *ended = NULL;

	if (checkpoint) {
		g_autofree char *end =
			g_strconcat("checkpoint delete ", checkpoint, " export=", origin, NULL);

		ended = asked_server_ask(server, end, removed ? error : NULL);
	}
	return removed && (!checkpoint || ended);
}

/* After a failure, whose error is known already. */
static void
snapshot_request_undo(const struct asked_server *server, json_t *answer,
		      const struct snapshot_request *request)
{
	json_t *snapshot;
	size_t i;

	if (!request->all)
		snapshot_remove(server, answer, request->checkpoint, NULL);
	json_array_foreach(json_object_get(answer, "exports"), i, snapshot)
		snapshot_remove(server, snapshot, request->checkpoint, NULL);
}

json_t *
snapshot_make(const struct asked_server *server, const struct snapshot_options *options,
	      const struct snapshot_request *request, GError **error)
{
	g_autofree char *line = snapshot_request_compose(options, request, error);
	struct frozen_mounts frozen;
	json_t *answer;

	if (line && options->freeze && server->socket)
		return FAILURE_NULL(
			error, EINVAL,
			"--freeze is for a device, whose file systems are mounted here");
	if (!line || (options->freeze && !frozen_mounts_begin(&frozen, server->ours.device, error)))
		return NULL;
	answer = asked_server_ask(server, line, error);
	if (!options->freeze || frozen_mounts_end(&frozen, answer ? error : NULL) || !answer)
		return answer;
	/* It came too late. */
	snapshot_request_undo(server, answer, request);
	json_decref(answer);
	return NULL;
}
