/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nbdloop resize: gives a device, or an export of a running nbdloopd, which may be in use, the
 * current size of its image.
 */
#include "tool/device/nbd_driver.h"
#include "tool/failure.h"
#include "tool/guard/guard_record.h"
#include "tool/source/source_connection.h"
#include "tool/verb/served_export.h"
#include "tool/verb/verb.h"

#include <errno.h>
#include <inttypes.h>

/* The size that the server reports to a new connection. */
static bool
ask_at(const char *uri, const char *in_use, const struct source_tls *tls, uint64_t *size,
       GError **error)
{
	struct source_connection connection = {.fd = -1}, *all = &connection;
	g_autoptr(GPtrArray) uris = nbd_uri_servers(in_use ? in_use : uri, error);
	const struct source_search search = {.uri = uri, .uris = uris, .tls = tls};
	unsigned int server;

	if (!uris || !source_connections_to_servers(&all, 1, false, &search, SOURCE_LIMIT_MS,
						    &server, error))
		return false;
	source_connection_close(&connection);
	*size = connection.export.size;
	return true;
}

/* The guard has written down what TLS needs. */
static bool
ask_remote(const struct device *device, uint64_t *size, GError **error)
{
	struct guard_progress progress = {.place = NULL};
	struct guard_plan plan = {.source.place = NULL};
	g_autoptr(GError) why = NULL;
	bool done = guard_record_read(device, &plan, &progress, &why) ||
		    !g_str_has_prefix(device->backend, "nbds") || failure_pass(error, &why);

	/* Of several servers, only the one that the device is connected to matters. */
	done = done && ask_at(device->backend, progress.server, &plan.source.tls, size, error);

	guard_plan_fini(&plan);
	guard_progress_fini(&progress);
	return done;
}

static bool
resize_ask_server(const struct our_device *ours, uint64_t *size, GError **error)
{
	json_auto_t *export = our_device_change_export(ours, "resize", error);
	enum server_kind kind;

	if (!export)
		return false;
	*size = (uint64_t)json_integer_value(json_object_get(export, "size"));
	if (*size <= ours->device->size)
		return true;
	/* nbdkit asks its plugin for the size once per connection, and refuses requests after that
	 * end: a new nbdkit has new connections. */
	return our_device_server(ours, &kind, error) &&
	       (kind != SERVER_NBDKIT || our_device_ask_guard(ours, "replace", error));
}

/* The guard does it, since it replaces no server meanwhile (see attachment_resize()); without a
 * guard, no server is replaced at all. */
static bool
change_size(const struct our_device *ours, uint64_t size, GError **error)
{
	struct nbd_driver *NBD_DRIVER_CLEANUP driver = NULL;
	const struct nbd_driver_change change = {.backend = ours->device->backend, .size = &size};
	g_autofree char *request = g_strdup_printf("resize %" PRIu64, size);
	g_autoptr(GError) why = NULL;

	if (ours->control && our_device_ask_guard(ours, request, &why))
		return true;
	if (ours->control && !failure_is(why, ECONNREFUSED))
		return failure_pass(error, &why);
	driver = nbd_driver_open(error);
	return driver && nbd_driver_change(driver, ours->device->index, &change, error);
}

static bool
resize_kernel_device(const struct our_device *ours, GError **error)
{
	const struct device *device = ours->device;
	struct device *DEVICE_CLEANUP now = NULL;
	uint64_t size = 0;

	if (!(ours->control ? resize_ask_server(ours, &size, error)
			    : ask_remote(device, &size, error)))
		return false;
	size -= size % device->block_size;
	if (size == 0)
		return failure(
			error, EINVAL,
			"/dev/%s keeps its size: there is less than one block in its image now",
			device->name);
	if (size == device->size)
		return ours->control ||
		       failure(error, EALREADY,
			       "/dev/%s keeps its size: its server still says %" PRIu64
			       " bytes; resize the export there first",
			       device->name, size);
	if (!change_size(ours, size, error))
		return false;
	now = device_read(device->name, error);
	if (now && now->size != size)
		return failure(error, EIO, "/dev/%s has %" PRIu64 " bytes instead of %" PRIu64,
			       device->name, now->size, size);
	return now != NULL;
}

/* Devices at a URI have no server of ours to ask, and are resized, too. */
static bool
run_resize(const struct verb_call *call, GError **error)
{
	struct asked_server server = {.text = call->operands[0]};
	bool done;

	if (asked_server_is_device(call->operands[0]))
		done = our_device_find(&server.ours, call->operands[0], error) &&
		       resize_kernel_device(&server.ours, error);
	else
		done = asked_server_find(&server, call->operands[0], error) &&
		       served_export_resize(&server, error);
	asked_server_fini(&server);
	return done;
}

const struct verb verb_resize = {
	.name = "resize",
	.help = "change the size of a device or an export to that of its image",
	.synopsis = "DEVICE|SOCKET|[SOCKET:]EXPORT",
	.summary =
		"Changes the size of a device, mounted or not, or of an export of nbdloopd, to the current size of its image.",
	.least = 1,
	.most = 1,
	.run = run_resize,
};
