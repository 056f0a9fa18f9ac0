/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop resize: the size of the image as it is now becomes the device's, while that is used.
 */
#include "tool/device/nbd_driver.h"
#include "tool/failure.h"
#include "tool/server/upstream_connection.h"
#include "tool/verb/our_device.h"
#include "tool/verb/verb.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

/* The size that the server tells a new connection. */
static bool
ask_remote(const char *uri, uint64_t *size, GError **error)
{
	struct upstream_connection connection;

	if (!upstream_connection_to_uri(&connection, uri, error))
		return false;
	close(connection.fd);
	*size = connection.size;
	return true;
}

/* nbdkit asks its plugin for the size once per connection, and refuses requests after that end:
 * a new nbdkit has new connections. */
static bool
renew_connections(const struct our_device *ours, GError **error)
{
	enum server_kind kind;

	return our_device_server(ours, &kind, error) &&
	       (kind != SERVER_NBDKIT || our_device_ask_guard(ours, "replace", error));
}

static bool
ask_server(const struct our_device *ours, uint64_t *size, GError **error)
{
	g_autoptr(JsonObject) export = our_device_change_export(ours, "resize", error);

	if (!export)
		return false;
	*size = (uint64_t)json_object_get_int_member(export, "size");
	return *size <= ours->device->size || renew_connections(ours, error);
}

/* By the guard, which replaces no server meanwhile (see attachment_resize()); where there is none,
 * nobody does. */
static bool
change_size(const struct our_device *ours, uint64_t size, GError **error)
{
	struct nbd_driver *NBD_DRIVER_CLEANUP driver = NULL;
	const struct nbd_driver_change change = {.backend = ours->device->backend, .size = &size};
	g_autofree char *request = g_strdup_printf("resize %" PRIu64, size);
	g_autoptr(GError) why = NULL;

	if (ours->control && our_device_ask_guard(ours, request, &why))
		return true;
	if (ours->control && !failure_is(why, ECONNREFUSED)) {
		g_propagate_error(error, g_steal_pointer(&why));
		return false;
	}
	driver = nbd_driver_open(error);
	return driver && nbd_driver_change(driver, ours->device->index, &change, error);
}

static bool
resize_found(const struct our_device *ours, GError **error)
{
	const struct device *device = ours->device;
	struct device *DEVICE_CLEANUP now = NULL;
	uint64_t size;

	if (!(ours->control ? ask_server(ours, &size, error)
			    : ask_remote(device->backend, &size, error)))
		return false;
	size -= size % device->block_size;
	if (size == 0)
		return failure(
			error, EINVAL,
			"/dev/%s keeps its size: there is less than one block in its image now",
			device->name);
	if (size == device->size)
		return true;
	if (!change_size(ours, size, error))
		return false;
	now = device_read("/sys", device->name, error);
	if (now && now->size != size)
		return failure(error, EIO, "/dev/%s has %" PRIu64 " bytes instead of %" PRIu64,
			       device->name, now->size, size);
	return now != NULL;
}

static bool
resize(const struct verb_call *call, GError **error)
{
	struct our_device OUR_DEVICE_CLEANUP ours = {.device = NULL};

	return our_device_find(&ours, call->operands[0], error) && resize_found(&ours, error);
}

const struct verb verb_resize = {
	.name = "resize",
	.help = "change the size of a device to that of its image",
	.synopsis = "DEVICE",
	.summary =
		"Changes the size of a device, mounted or not, to the current size of its image or export.",
	.least = 1,
	.most = 1,
	.run = resize,
};
