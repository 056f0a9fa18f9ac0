/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/top/watch.h"

#include "tool/failure.h"
#include "tool/server/server_link.h"
#include "tool/top/server_sockets.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- which */

static void
drop_source(gpointer source)
{
	source_drop(source);
}

static bool
add_named(struct watch *watch, const char *text, GError **error)
{
	struct device *DEVICE_CLEANUP device = NULL;
	struct stat st;

	if (stat(text, &st) == 0 && S_ISSOCK(st.st_mode)) {
		g_ptr_array_add(watch->sources, source_new(false, text, true));
		return true;
	}
	device = device_read_attached(text, error);
	if (!device)
		return false;
	g_ptr_array_add(watch->sources, source_new(true, device->name, true));
	return true;
}

bool
watch_init(struct watch *watch, char **names, GError **error)
{
	*watch = (struct watch){
		.sources = g_ptr_array_new_with_free_func(drop_source),
		.searches = !*names,
		.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
	};
	if (watch->event < 0)
		return failure_errno(error, errno, "no eventfd");
	for (; *names; names++) {
		if (!add_named(watch, *names, error))
			return false;
	}
	watch->pool = source_pool_new(watch->event, error);
	return watch->pool != NULL;
}

void
watch_fini(struct watch *watch)
{
	g_ptr_array_unref(watch->sources);
	/* The eventfd, which a late thread writes to, stays until the program ends. */
	if (watch->pool)
		g_thread_pool_free(watch->pool, TRUE, FALSE);
}

static void
see(struct watch *watch, bool device, const char *name)
{
	struct source *source;

	for (guint i = 0; i < watch->sources->len; i++) {
		source = watch->sources->pdata[i];
		if (source->device == device && strcmp(source->name, name) == 0) {
			source->seen = true;
			return;
		}
	}
	source = source_new(device, name, false);
	source->seen = true;
	g_ptr_array_add(watch->sources, source);
}

static void
see_devices(struct watch *watch, GPtrArray *sockets)
{
	g_autoptr(GPtrArray) devices = devices_identify_attached(NULL);

	for (guint i = 0; devices && i < devices->len; i++) {
		const struct device *device = devices->pdata[i];
		g_autofree char *socket = server_link_path(device->backend);
		guint index;

		see(watch, true, device->name);
		/* The device's line has what its server tells. */
		if (socket &&
		    g_ptr_array_find_with_equal_func(sockets, socket, g_str_equal, &index))
			g_ptr_array_remove_index(sockets, index);
	}
}

static void
search(struct watch *watch)
{
	g_autoptr(GPtrArray) sockets = server_sockets_find();

	for (guint i = 0; i < watch->sources->len; i++)
		((struct source *)watch->sources->pdata[i])->seen = false;
	see_devices(watch, sockets);
	for (guint i = 0; i < sockets->len; i++)
		see(watch, false, sockets->pdata[i]);
	for (guint i = watch->sources->len; i-- > 0;) {
		if (!((struct source *)watch->sources->pdata[i])->seen)
			g_ptr_array_remove_index(watch->sources, i);
	}
}

/* ---- answers */

void
watch_ask(struct watch *watch)
{
	if (watch->searches)
		search(watch);
	for (guint i = 0; i < watch->sources->len; i++)
		source_ask(watch->sources->pdata[i], watch->pool);
}

bool
watch_take(struct watch *watch)
{
	bool all = true;
	eventfd_t count;

	/* First: what comes after it makes the descriptor readable again. */
	eventfd_read(watch->event, &count);
	for (guint i = 0; i < watch->sources->len; i++) {
		struct source *source = watch->sources->pdata[i];

		source_take(source);
		all = all && source->asked == 0;
	}
	return all;
}
