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

static json_t *
ceph_ask_server(const char *control, GError **error)
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
source_ceph_ask(struct source *source, GError **error)
{
	struct image_source *image = source->state;
	json_auto_t *status = NULL;
	const char *address;
	json_t *ceph;
	bool owner;

	if (!source_ceph_follows(source))
		return true;
	status = ceph_ask_server(source->control, error);
	if (!status)
		return false;
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

static void
note_release(struct image_source *image)
{
	char *address = image->ceph_fence;

	if (!address || g_str_has_suffix(address, FREE))
		return;
	image->ceph_fence = g_strconcat(address, FREE, NULL);
	g_free(address);
}

static void
note_taking(struct source *source, const char *client)
{
	struct image_source *image = source->state;

	if (!source_ceph_follows(source))
		return;
	image->nameless = !client || !*client;
	if (image->nameless)
		return;
	g_free(image->ceph_fence);
	image->ceph_fence = g_strdup(client);
}

void
source_ceph_take_event(struct source *source, const struct event *event)
{
	struct image_source *image = source->state;

	image->fenced = image->fenced || event->kind == EVENT_FENCED;
	if (event->kind == EVENT_LOCK_TAKEN)
		note_taking(source, event->client);
	if (event->kind == EVENT_LOCK_RELEASED)
		note_release(image);
}
