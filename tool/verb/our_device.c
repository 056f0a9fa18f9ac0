/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/verb/our_device.h"

#include "tool/failure.h"
#include "tool/guard/guard_link.h"
#include "tool/guard/guard_record.h"
#include "tool/link/nbd_uri.h"
#include "tool/link/server_link.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum {
	AWAY_TRIES = 100, /* a server that has ended is restarted long before */
	AWAY_US = 100000,
};

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
	if (name && geteuid() != 0)
		return failure(error, EPERM, "only root can change block devices: use sudo");
	ours->device = name ? device_read_attached(name, error) : NULL;
	if (!ours->device)
		return false;
	ours->control = server_link_path(ours->device->backend);
	if (!ours->control && !nbd_uri_is(ours->device->backend))
		return failure(error, EINVAL,
			       "/dev/%s was not attached by nbdloop, but by process %d", name,
			       (int)ours->device->pid);
	return true;
}

bool
our_device_find_served(struct our_device *ours, const char *text, GError **error)
{
	if (!our_device_find(ours, text, error))
		return false;
	return ours->control ||
	       failure(error, EINVAL,
		       "/dev/%s is attached to %s: nbdloop cannot change a server that it did not start",
		       ours->device->name, ours->device->backend);
}

/* ---- its server */

typedef json_t *
asker(const char *control_path, const char *request, GError **error);

/* A server that is being replaced, or has died, is soon restarted; every request here may be sent
 * twice. */
static json_t *
ask_patiently(const struct our_device *ours, asker *ask, const char *request, GError **error)
{
	for (unsigned int i = 0;; i++) {
		g_autoptr(GError) why = NULL;
		json_t *answer = ask(ours->control, request, &why);

		if (answer)
			return answer;
		if (!failure_is(why, ECONNREFUSED) && !failure_is(why, ENOENT) &&
		    !failure_is(why, ECONNRESET) && !failure_is(why, EPIPE)) {
			failure_pass(error, &why);
			return NULL;
		}
		if (guard_record_keeper(ours->device) == 0)
			return FAILURE_NULL(
				error, why->code,
				"/dev/%s has neither a server nor a guard any more: nbdloop adopt /dev/%s starts both "
				"again; after I/O errors, unmount it, and check its file system",
				ours->device->name, ours->device->name);
		if (i == AWAY_TRIES)
			return FAILURE_NULL(
				error, why->code,
				"the server of /dev/%s is gone, and has not been restarted within %d seconds: %s",
				ours->device->name, AWAY_TRIES * AWAY_US / 1000000, why->message);
		g_usleep(AWAY_US);
	}
}

json_t *
our_device_export(const struct our_device *ours, GError **error)
{
	json_auto_t *status = ask_patiently(ours, server_link_ask, "status", error);
	json_t *export = server_link_export(status);

	if (status && !export)
		failure(error, EPROTO, "the server of /dev/%s doesn't serve one image",
			ours->device->name);
	return export ? json_incref(export) : NULL;
}

json_t *
our_device_change_export(const struct our_device *ours, const char *request, GError **error)
{
	return ask_patiently(ours, server_link_change, request, error);
}

bool
our_device_server(const struct our_device *ours, enum server_kind *kind, GError **error)
{
	json_auto_t *status = ask_patiently(ours, server_link_ask, "status", error);
	const char *program;

	if (!status)
		return false;
	program = json_string_value(json_object_get(status, "program"));
	*kind = g_strcmp0(program, "nbdloopd") == 0 ? SERVER_NBDLOOPD : SERVER_NBDKIT;
	return true;
}

bool
our_device_ask_guard(const struct our_device *ours, const char *request, GError **error)
{
	g_autoptr(GError) why = NULL;

	if (guard_link_ask(ours->control, request, &why))
		return true;
	if (failure_is(why, ECONNREFUSED))
		return failure(
			error, ECONNREFUSED,
			"/dev/%s has no guard any more: nbdloop adopt /dev/%s starts a new one",
			ours->device->name, ours->device->name);
	return failure_pass(error, &why);
}
