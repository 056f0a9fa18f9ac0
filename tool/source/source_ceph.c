/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/source/source_ceph.h"

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
source_ceph_follows(const struct source *source)
{
	return source->control && !source->plan->force && !image_file_is_here(source->place);
}

bool
source_ceph_ask(struct source *source, GError **error)
{
	struct image_source *image = source->state;
	json_auto_t *status = NULL;
	const char *address;
	json_t *ceph;
	bool owner;

	if (!source_ceph_follows(source))
		return true;
	for (unsigned int i = 1; !status; i++) {
		g_autoptr(GError) why = NULL;

		status = server_link_ask(source->control, "status", &why);
		if (!status && (i == TRIES || !failure_is(why, ETIMEDOUT)))
			return failure_pass(error, &why);
	}
	ceph = json_object_get(server_link_export(status), "ceph");
	image->fenced = image->fenced || json_is_true(json_object_get(ceph, "fenced"));
	owner = json_is_true(json_object_get(ceph, "lock_owner"));
	address = json_string_value(json_object_get(ceph, "lock_address"));
	if (!ceph || (owner && !address))
		return failure(error, EIO,
			       "the server of %s doesn't tell which client of Ceph it is",
			       source->place);
	/* A reader has no lock, and a server that was fenced has it no longer. */
	if (owner) {
		g_free(image->ceph_fence);
		image->ceph_fence = g_strdup(address);
	}
	return true;
}

void
source_ceph_take_event(struct source *source, const struct event *event)
{
	struct image_source *image = source->state;
	const char *client = event->client && *event->client ? event->client : NULL;
	char *last = image->ceph_fence;

	image->fenced = image->fenced || event->kind == EVENT_FENCED;
	if (event->kind == EVENT_LOCK_TAKEN && source_ceph_follows(source)) {
		image->nameless = !client;
		if (client) {
			image->ceph_fence = g_strdup(client);
			g_free(last);
		}
	}
	if (event->kind == EVENT_LOCK_RELEASED && last && !g_str_has_suffix(last, FREE)) {
		image->ceph_fence = g_strconcat(last, FREE, NULL);
		g_free(last);
	}
}
