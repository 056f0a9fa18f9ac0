/* SPDX-License-Identifier: BSD-3-Clause */
#include "plugins/loop/plugin_status.h"

#include "plugins/loop/plugin_exports.h"

#include "common/cleanup.h"
#include "control/answer.h"
#include "engine/image/image_json.h"

#include <unistd.h>

static void
write_export(struct json *json, const char *key, struct export *e)
{
	char *CLEANUP_FREE path = exports_path(e);
	struct image_status status;

	image_status(e->image, &status);
	json_object_begin(json, key);
	json_put_string(json, "name", e->name);
	json_put_uint(json, "connections", e->connections);
	json_image(json, path, &status);
	json_object_end(json);
}

static void
write_export_in_list(void *data, struct export *e)
{
	write_export(data, NULL, e);
}

static void
plugin_status_write(struct json *json, const struct loop_config *config)
{
	json_object_begin(json, NULL);
	json_put_string(json, "program", "nbdkit-loop-plugin");
	json_put_string(json, "version", PACKAGE_VERSION);
	json_put_uint(json, "pid", (uint64_t)getpid());
	json_put_bool(json, "swap", config->swap == TRISTATE_ON);
	json_array_begin(json, "exports");
	exports_visit(write_export_in_list, json);
	json_array_end(json);
	json_object_end(json);
}

static void
plugin_change(const struct control_request *request, struct json *json)
{
	struct export *e = exports_get(request->export_name);
	char *CLEANUP_FREE error = NULL;
	int r;

	if (!e) {
		answer_no_export(json, request->export_name, ", or no client uses it now");
		return;
	}
	r = request->verb == CONTROL_SET ? image_set_direct(e->image, request->direct_io, &error)
					 : image_resize(e->image, &error);
	if (r < 0)
		answer_error(json, error);
	else
		write_export(json, NULL, e);
	exports_put(e);
}

void
status_handle(const struct control_request *request, FILE *out, void *data)
{
	struct json json;

	json_init(&json, out);
	if (request->verb == CONTROL_STATUS)
		plugin_status_write(&json, data);
	else if (request->verb == CONTROL_SET || request->verb == CONTROL_RESIZE)
		plugin_change(request, &json);
	else if (request->verb == CONTROL_SET_RULES || request->verb == CONTROL_DISCONNECT)
		answer_error(&json,
			     "the plugin knows nothing of its clients: see nbdkit-ip-filter(1)");
	else if (request->verb == CONTROL_SET_LIMITS)
		answer_error(&json, "the plugin has no limits: see nbdkit-rate-filter(1)");
	else if (request->verb == CONTROL_SNAPSHOT)
		answer_error(&json, "the plugin makes no snapshots: nbdloopd does");
	else if (request->verb == CONTROL_CREATE_CHECKPOINT ||
		 request->verb == CONTROL_DELETE_CHECKPOINT)
		answer_error(&json, "the plugin has no checkpoints: nbdloopd has them");
	else
		answer_error(
			&json,
			"the plugin can neither add nor remove exports: file= and dir= choose what is served");
}
