/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/show/listing.h"

#include "tool/device/device_log.h"
#include "tool/device/device_users.h"
#include "tool/device/image_file.h"
#include "tool/failure.h"
#include "tool/guard/guard_record.h"
#include "tool/link/nbd_uri.h"
#include "tool/link/server_link.h"

#include <errno.h>

/* How long requests wait for a server before they fail, in seconds; 0: only root may read it. */
static unsigned int
dead_timeout_of(const struct device *device)
{
	struct guard_progress progress = {.place = NULL};
	struct guard_plan plan = {.source.place = NULL};
	unsigned int seconds = 0;

	if (guard_record_read(device, &plan, &progress, NULL))
		seconds = plan.attachment.dead_timeout;
	guard_plan_fini(&plan);
	guard_progress_fini(&progress);
	return seconds;
}

/* The trouble of a device that has neither a server nor a guard.  Each request waits from its own
 * beginning; so none fails before the first that may have begun with the loss. */
static char *
explain_loss(const struct device *device)
{
	gint64 when = 0;
	const enum device_loss loss = device_loss_read(device->name, &when);
	const gint64 gone = (g_get_monotonic_time() - when) / G_USEC_PER_SEC,
		     left = dead_timeout_of(device) - gone;

	if (loss == DEVICE_ENDED)
		return g_strdup_printf(
			"its server and its guard are gone, and requests fail.  nbdloop adopt /dev/%s "
			"starts both again; a file system that was mounted meanwhile must be unmounted "
			"and checked first",
			device->name);
	if (loss == DEVICE_LOST && left > 0)
		return g_strdup_printf(
			"its server and its guard are gone, and requests wait: none fails within the "
			"next %d seconds (--dead-timeout).  nbdloop adopt /dev/%s starts both again",
			(int)left, device->name);
	return g_strdup_printf(
		"its server and its guard are gone, and requests wait: the first that has waited for "
		"--dead-timeout fails, and so do all after it.  nbdloop adopt /dev/%s starts both again; "
		"after an I/O error, a mounted file system must be unmounted and checked first",
		device->name);
}

static void
listing_ask_server(struct listing *listing, const char *control_path)
{
	g_autoptr(GError) error = NULL;

	listing->status = server_link_ask(control_path, "status", &error);
	if (!listing->status) {
		listing->trouble = listing->guard == 0 && (failure_is(error, ECONNREFUSED) ||
							   failure_is(error, ENOENT))
					   ? explain_loss(listing->device)
					   : g_strdup(error->message);
		return;
	}
	listing->image = server_link_export(listing->status);
	listing->server = g_strdup(json_string_value(json_object_get(listing->status, "program")));
}

static void
describe_remote(struct listing *listing)
{
	struct guard_progress progress = {.place = NULL};
	struct guard_plan plan = {.source.place = NULL};

	listing->server = g_strdup("remote");
	/* Only root may read what the guard knows. */
	if (guard_record_read(listing->device, &plan, &progress, NULL)) {
		listing->tls = *progress.tls ? progress.tls : NULL;
		listing->remote = progress.server ? nbd_uri_server_name(progress.server) : NULL;
		listing->trouble = g_strdup(progress.misfits);
		listing->connections = plan.source.connections;
	}
	guard_plan_fini(&plan);
	guard_progress_fini(&progress);
}

char *
listing_source(const struct listing *listing)
{
	if (!listing->image && nbd_uri_is(listing->device->backend))
		return g_strdup(listing->device->backend);
	return image_file_of_server(listing->status);
}

/* Paths can't be compared, as there may be links. */
bool
listing_has_source(const struct listing *listing, const char *source)
{
	g_autofree char *mine = listing_source(listing);
	struct stat st;

	if (listing->image && !nbd_uri_is(source) && image_file_is_here(source) &&
	    stat(source, &st) == 0)
		return image_file_is_export(&st, listing->image);
	return g_strcmp0(mine, source) == 0;
}

json_t *
listing_member(const struct listing *listing, const char *member)
{
	json_t *value = json_object_get(listing->image, member);

	return value ? json_incref(value) : json_null();
}

struct listing *
listing_new(struct device *device)
{
	struct listing *listing = g_new0(struct listing, 1);
	g_autofree char *control_path = server_link_path(device->backend);

	listing->device = device;
	listing->guard = guard_record_keeper(device);
	if (control_path)
		listing_ask_server(listing, control_path);
	else if (nbd_uri_is(device->backend))
		describe_remote(listing);
	else
		listing->server = device_keeper(device);
	if (listing->guard == 0 && !listing->trouble)
		listing->trouble = g_strdup_printf(
			"its guard was killed, and nothing would %s its server: nbdloop adopt /dev/%s",
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
	g_free(listing->remote);
	g_free(listing->trouble);
	json_decref(listing->status);
	g_free(listing);
}
