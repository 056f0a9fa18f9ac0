/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/our_device.h"

#include "tool/connection.h"
#include "tool/failure.h"
#include "tool/server_link.h"

#include <errno.h>

void
our_device_fini(struct our_device *ours)
{
	device_cleanup(&ours->device);
	g_free(ours->control);
	*ours = (struct our_device){.device = NULL};
}

bool
our_device_find(struct our_device *ours, const char *text, GError **error)
{
	g_autofree char *name = device_name(text, error);

	*ours = (struct our_device){.device = NULL};
	ours->device = name ? device_read("/sys", name, error) : NULL;
	if (!ours->device)
		return false;
	if (ours->device->pid == 0)
		return failure(error, ENXIO, "/dev/%s is not attached", name);
	ours->control = server_link_path(ours->device->backend);
	if (!ours->control && !(ours->device->backend && connection_is_uri(ours->device->backend)))
		return failure(error, EINVAL, "/dev/%s was not attached by nbdloop, but by process %d", name,
			       (int)ours->device->pid);
	return true;
}

bool
our_device_find_served(struct our_device *ours, const char *text, GError **error)
{
	if (!our_device_find(ours, text, error))
		return false;
	if (!ours->control)
		return failure(error, EINVAL, "/dev/%s is attached to %s, whose server isn't nbdloop's to change", ours->device->name,
			       ours->device->backend);
	return true;
}

JsonObject *
our_device_ask_export(const struct our_device *ours, const char *request, GError **error)
{
	JsonObject *answer = server_link_ask(ours->control, request, error);
	JsonArray *exports;
	JsonObject *export;

	if (!answer || !json_object_has_member(answer, "exports"))
		return answer;
	exports = json_object_get_array_member(answer, "exports");
	export = json_array_get_length(exports) > 0 ? json_object_ref(json_array_get_object_element(exports, 0)) : NULL;
	json_object_unref(answer);
	if (!export)
		failure(error, EPROTO, "the server of /dev/%s serves nothing", ours->device->name);
	return export;
}
