/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests of the control socket that concern a moment of an image: snapshots and checkpoints.
 */
#include "server/exports/status_state.h"

#include "server/exports/exports.h"
#include "server/exports/server_status.h"
#include "server/exports/snapshots.h"

#include "common/cleanup.h"
#include "common/error.h"
#include "common/unit.h"
#include "control/answer.h"
#include "engine/changes/checkpoint.h"

#include <errno.h>

struct snapshot_writer {
	struct export_writer writer;
	const struct snapshot_request *request;
};

static void
write_snapshot(void *data, const struct visited *visited)
{
	struct snapshot_writer *writer = data;

	if (snapshot_is_of_request(visited->export, writer->request))
		status_write_export(&writer->writer, visited);
}

void
status_make_snapshots(const struct status *status, const struct control_request *request,
		      struct json *json)
{
	const struct snapshot_request wanted = {
		.name = request->snapshot,
		.origin = request->export_name,
		.all = request->all,
		.checkpoint = request->checkpoint,
		.scratch = request->scratch,
		.scratch_size = request->scratch_size,
		.expire = request->expire,
	};
	struct snapshot_writer writer = {{json, NULL}, &wanted};
	char *CLEANUP_FREE error = NULL;
	int r = status->listen ? status->listen(status->data, request->local, &error) : 0;

	if (r == 0)
		r = exports_snapshot(status->exports, &wanted, &error);
	if (r == -ENOENT && !error) {
		answer_no_export(json, request->export_name, "");
		return;
	}
	if (r < 0) {
		answer_error(json, error);
		return;
	}
	writer.writer.socket = status_socket(status);
	if (!request->all &&
	    exports_visit(status->exports, request->snapshot, write_snapshot, &writer) == 0)
		answer_no_export(json, request->snapshot, ""); /* it has just been removed */
	if (!request->all)
		return;
	json_object_begin(json, NULL);
	json_array_begin(json, "exports");
	exports_visit(status->exports, NULL, write_snapshot, &writer);
	json_array_end(json);
	json_object_end(json);
}

void
status_change_checkpoint(const struct status *status, const struct control_request *request,
			 struct json *json)
{
	bool create = request->verb == CONTROL_CREATE_CHECKPOINT;
	uint64_t granule = CHECKPOINT_GRANULE;
	char *CLEANUP_FREE error = NULL;
	int r = 0;

	if (request->granularity)
		r = unit_parse_size(request->granularity, &granule);
	if (r < 0)
		error_set(&error, r, "granularity=%s: must be a size, such as 64k",
			  request->granularity);
	else if (create)
		r = exports_begin_checkpoint(status->exports, request->export_name,
					     request->checkpoint, granule, &error);
	else
		r = exports_end_checkpoint(status->exports, request->export_name,
					   request->checkpoint, &error);
	if (r == -ENOENT && !error) {
		answer_no_export(json, request->export_name, ", or it is a snapshot");
		return;
	}
	if (r < 0) {
		answer_error(json, error);
		return;
	}
	json_object_begin(json, NULL);
	json_put_string(json, create ? "created" : "deleted", request->checkpoint);
	json_object_end(json);
}
