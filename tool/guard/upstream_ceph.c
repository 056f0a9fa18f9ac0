/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/guard/upstream_ceph.h"

#include "tool/device/image_file.h"
#include "tool/failure.h"
#include "tool/link/server_link.h"

#include <errno.h>
#include <string.h>

/* How often a busy server is asked; each time takes up to 5 seconds. */
#define TRIES 6

/* What ends a value of nbdloopd's ceph-fence if the lock may be free. */
#define FREE "+free"

bool
upstream_ceph_follows(const struct upstream *upstream)
{
	return upstream->control && !upstream->plan->remote && !upstream->plan->force &&
	       image_file_in_ceph(upstream->place);
}

static json_t *
ask(const char *control, GError **error)
{
	for (unsigned int i = 1;; i++) {
		g_autoptr(GError) why = NULL;
		json_t *status = server_link_ask(control, "status", &why);

		if (status)
			return status;
		if (i == TRIES || !failure_is(why, ETIMEDOUT)) {
			g_propagate_error(error, g_steal_pointer(&why));
			return NULL;
		}
	}
}

bool
upstream_ceph_ask(struct upstream *upstream, GError **error)
{
	json_auto_t *status = NULL;
	const char *address;
	json_t *ceph;
	bool owner;

	if (!upstream_ceph_follows(upstream))
		return true;
	status = ask(upstream->control, error);
	if (!status)
		return false;
	ceph = json_object_get(server_link_export(status), "ceph");
	upstream->fenced = upstream->fenced || json_is_true(json_object_get(ceph, "fenced"));
	owner = json_is_true(json_object_get(ceph, "lock_owner"));
	address = json_string_value(json_object_get(ceph, "lock_address"));
	if (!ceph || (owner && !address))
		return failure(error, EIO,
			       "the server of %s doesn't tell which client of Ceph it is",
			       upstream->place);
	/* A reader has no lock, and a server that was fenced has it no longer. */
	if (owner) {
		g_free(upstream->ceph_fence);
		upstream->ceph_fence = g_strdup(address);
	}
	return true;
}

static void
note_release(struct upstream *upstream)
{
	char *address = upstream->ceph_fence;

	if (!address || g_str_has_suffix(address, FREE))
		return;
	upstream->ceph_fence = g_strconcat(address, FREE, NULL);
	g_free(address);
}

static void
note_taking(struct upstream *upstream, const char *client)
{
	if (!upstream_ceph_follows(upstream))
		return;
	upstream->nameless = !client || !*client;
	if (upstream->nameless)
		return;
	g_free(upstream->ceph_fence);
	upstream->ceph_fence = g_strdup(client);
}

void
upstream_ceph_take_event(struct upstream *upstream, const struct event *event)
{
	upstream->fenced = upstream->fenced || event->kind == EVENT_FENCED;
	if (event->kind == EVENT_LOCK_TAKEN)
		note_taking(upstream, event->client);
	if (event->kind == EVENT_LOCK_RELEASED)
		note_release(upstream);
}
