/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/device/device_owner.h"

#include "tool/device/image_file.h"
#include "tool/failure.h"
#include "tool/server/server_link.h"
#include "tool/system_root.h"

#include <errno.h>

bool
device_owner_explain(const struct device *device, GError **error)
{
	g_autoptr(JsonObject) status = server_link_status(device->backend, NULL);
	g_autofree char *image = image_file_of_server(status);
	g_autofree char *control = server_link_path(device->backend);
	const char *backend = device->backend && !control ? device->backend : "";

	if (image)
		return failure(
			error, EBUSY,
			"/dev/%s is attached already, to %s; detach it first, or name no device: then a free one "
			"is taken",
			device->name, image);
	return failure(
		error, EBUSY,
		"/dev/%s is attached already, by process %d%s%s; detach it first, or name no device: then a free "
		"one is taken",
		device->name, (int)device->pid, *backend ? ", to " : "", backend);
}

bool
device_owner_none(const char *name, GError **error)
{
	g_autofree char *sys = system_root_path("/sys");
	g_autoptr(GError) why = NULL;
	struct device *DEVICE_CLEANUP device = device_read(sys, name, &why);

	/* The driver may not be loaded yet, and makes devices that are named. */
	return !device || device->pid == 0 || device_owner_explain(device, error);
}
