/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/show/listing.h"

#include "tool/device/device_users.h"
#include "tool/device/image_file.h"
#include "tool/failure.h"
#include "tool/guard/guard_record.h"
#include "tool/server/nbd_uri.h"
#include "tool/server/server_link.h"

#include <errno.h>
#include <string.h>

static bool
is_gone(const GError *error)
{
	return failure_is(error, ECONNREFUSED) || failure_is(error, ENOENT);
}

static void
ask_server(struct listing *listing, const char *control_path)
{
	g_autoptr(GError) error = NULL;

	listing->status = server_link_ask(control_path, "status", &error);
	if (!listing->status) {
		listing->trouble =
			is_gone(error) && listing->guard == 0
				? g_strdup_printf(
					  "neither its server nor its guard is there any more, and requests fail.  "
					  "nbdloop adopt /dev/%s has it served again; a file system that was "
					  "mounted meanwhile must be unmounted and checked first",
					  listing->device->name)
				: g_strdup(error->message);
		return;
	}
	listing->image = server_link_export(listing->status);
	listing->server = g_strdup(
		json_object_get_string_member_with_default(listing->status, "program", NULL));
}

/* ---- what holds the data */

char *
listing_source(const struct listing *listing)
{
	if (!listing->image && nbd_uri_is(listing->device->backend))
		return g_strdup(listing->device->backend);
	return image_file_of_server(listing->status);
}

/* Paths alone don't tell, as there are links. */
bool
listing_has_source(const struct listing *listing, const char *source)
{
	g_autofree char *mine = listing_source(listing);
	struct stat st;

	if (listing->image && !nbd_uri_is(source) && stat(source, &st) == 0)
		return image_file_is_export(&st, listing->image);
	return g_strcmp0(mine, source) == 0;
}

JsonNode *
listing_member(const struct listing *listing, const char *member)
{
	JsonNode *node = listing->image ? json_object_dup_member(listing->image, member) : NULL;

	return node ? node : json_node_new(JSON_NODE_NULL);
}

/* ---- beginning and end */

struct listing *
listing_new(struct device *device, const char *proc)
{
	struct listing *listing = g_new0(struct listing, 1);
	g_autofree char *control_path = server_link_path(device->backend);

	listing->device = device;
	listing->guard = guard_record_keeper(device);
	if (control_path)
		ask_server(listing, control_path);
	else if (nbd_uri_is(device->backend))
		listing->server = g_strdup("remote");
	else
		listing->server = device_keeper(proc, device);
	if (listing->guard == 0 && !listing->trouble)
		listing->trouble = g_strdup_printf(
			"its guard was killed, and nobody would %s its server: nbdloop adopt /dev/%s",
			control_path ? "restart" : "connect again to", device->name);
	return listing;
}

void
listing_free(struct listing *listing)
{
	if (!listing)
		return;
	device_free(listing->device);
	g_free(listing->server);
	g_free(listing->trouble);
	if (listing->status)
		json_object_unref(listing->status);
	g_free(listing);
}
