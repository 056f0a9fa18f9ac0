/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/top/watch.h"

#include "tool/failure.h"
#include "tool/link/server_link.h"
#include "tool/top/server_sockets.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- a search for servers, in a thread: what /proc tells of a process that hangs, or a
 * configuration on a file system that does, may be long in coming */

struct search {
	gatomicrefcount references; /* the owner's, and that of a thread */
	int event;                  /* gets 1 when the search is over */
	GMutex mutex;               /* guards: */
	GPtrArray *found;           /* not taken yet, or NULL */
	bool busy;                  /* a thread is searching */
};

static struct search *
search_new(int event)
{
	struct search *search = g_new0(struct search, 1);

	g_atomic_ref_count_init(&search->references);
	g_mutex_init(&search->mutex);
	search->event = event;
	return search;
}

static void
search_drop(struct search *search)
{
	if (!search || !g_atomic_ref_count_dec(&search->references))
		return;
	if (search->found)
		g_ptr_array_unref(search->found);
	g_mutex_clear(&search->mutex);
	g_free(search);
}

static gpointer
search_in_thread(gpointer data)
{
	struct search *search = data;
	GPtrArray *found = server_sockets_find();

	g_mutex_lock(&search->mutex);
	if (search->found)
		g_ptr_array_unref(search->found);
	search->found = found;
	search->busy = false;
	g_mutex_unlock(&search->mutex);
	eventfd_write(search->event, 1);
	search_drop(search);
	return NULL;
}

static void
search_start(struct search *search)
{
	GThread *thread;
	bool busy;

	g_mutex_lock(&search->mutex);
	busy = search->busy;
	search->busy = true;
	g_mutex_unlock(&search->mutex);
	if (busy)
		return;
	g_atomic_ref_count_inc(&search->references);
	thread = g_thread_try_new("search", search_in_thread, search, NULL);
	if (thread) {
		g_thread_unref(thread);
		return;
	}
	/* No thread can be had: the next interval tries again. */
	search->busy = false;
	search_drop(search);
}

/* ---- which */

static bool
watch_add_named(struct watch *watch, const char *text, GError **error)
{
	struct device *DEVICE_CLEANUP device = NULL;
	struct stat st;

	if (stat(text, &st) == 0 && S_ISSOCK(st.st_mode)) {
		g_ptr_array_add(watch->sources, watched_new(false, text));
		return true;
	}
	device = device_read_attached(text, error);
	if (!device)
		return false;
	g_ptr_array_add(watch->sources, watched_new(true, device->name));
	return true;
}

bool
watch_init(struct watch *watch, char **names, GError **error)
{
	*watch = (struct watch){
		.sources = g_ptr_array_new_with_free_func((GDestroyNotify)watched_drop),
		.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
	};
	if (watch->event < 0)
		return failure_errno(error, errno, "no eventfd");
	if (!*names)
		watch->search = search_new(watch->event);
	for (; *names; names++) {
		if (!watch_add_named(watch, *names, error))
			return false;
	}
	watch->pool = watched_pool_new(watch->event, error);
	return watch->pool != NULL;
}

void
watch_fini(struct watch *watch)
{
	g_ptr_array_unref(watch->sources);
	search_drop(watch->search);
	if (watch->sockets)
		g_ptr_array_unref(watch->sockets);
	if (watch->of_devices)
		g_ptr_array_unref(watch->of_devices);
	/* The eventfd, which a late thread writes to, stays until the program ends. */
	if (watch->pool)
		g_thread_pool_free(watch->pool, TRUE, FALSE);
}

/* Returns the source, a new one if there is none yet. */
static struct watched *
watch_see(struct watch *watch, bool device, const char *name)
{
	struct watched *source;

	for (guint i = 0; i < watch->sources->len; i++) {
		source = watch->sources->pdata[i];
		if (source->device == device && strcmp(source->name, name) == 0)
			return source;
	}
	source = watched_new(device, name);
	source->found = true;
	g_ptr_array_add(watch->sources, source);
	return source;
}

/* Unless it is that of a device: a device's line has what its server tells. */
static void
see_socket(struct watch *watch, const char *socket)
{
	if (!watch->of_devices ||
	    !g_ptr_array_find_with_equal_func(watch->of_devices, socket, g_str_equal, NULL))
		watch_see(watch, false, socket)->seen = true;
}

/* Makes the sources those devices that are attached now, and the servers that were found last. */
static void
watch_update(struct watch *watch)
{
	g_autoptr(GPtrArray) devices = devices_identify_attached(NULL);

	if (watch->of_devices)
		g_ptr_array_unref(watch->of_devices);
	watch->of_devices = g_ptr_array_new_with_free_func(g_free);
	for (guint i = 0; i < watch->sources->len; i++)
		((struct watched *)watch->sources->pdata[i])->seen = false;
	for (guint i = 0; devices && i < devices->len; i++) {
		const struct device *device = devices->pdata[i];
		char *socket = server_link_path(device->backend);

		watch_see(watch, true, device->name)->seen = true;
		if (socket)
			g_ptr_array_add(watch->of_devices, socket);
	}
	for (guint i = 0; watch->sockets && i < watch->sockets->len; i++)
		see_socket(watch, watch->sockets->pdata[i]);
	for (guint i = watch->sources->len; i-- > 0;) {
		if (!((struct watched *)watch->sources->pdata[i])->seen)
			g_ptr_array_remove_index(watch->sources, i);
	}
}

/* ---- answers */

void
watch_ask(struct watch *watch)
{
	if (watch->search) {
		watch_update(watch);
		search_start(watch->search);
		if (watch->searching == 0)
			watch->searching = g_get_monotonic_time();
	}
	for (guint i = 0; i < watch->sources->len; i++)
		watched_ask(watch->sources->pdata[i], watch->pool);
}

/* Asks the servers that were not known before.  Returns whether the search is over. */
static bool
take_found(struct watch *watch)
{
	struct search *search = watch->search;
	guint known = watch->sources->len;
	GPtrArray *found;
	bool busy;

	g_mutex_lock(&search->mutex);
	found = g_steal_pointer(&search->found);
	busy = search->busy;
	g_mutex_unlock(&search->mutex);
	if (!found)
		return !busy;
	if (watch->sockets)
		g_ptr_array_unref(watch->sockets);
	watch->sockets = found;
	/* New ones come last; those that have gone go at the next interval. */
	for (guint i = 0; i < found->len; i++)
		see_socket(watch, found->pdata[i]);
	for (guint i = known; i < watch->sources->len; i++)
		watched_ask(watch->sources->pdata[i], watch->pool);
	return !busy;
}

bool
watch_take(struct watch *watch)
{
	bool all = true;
	eventfd_t count;

	/* First: what comes after it makes the descriptor readable again. */
	eventfd_read(watch->event, &count);
	if (watch->search)
		all = take_found(watch);
	if (all)
		watch->searching = 0;
	for (guint i = 0; i < watch->sources->len; i++) {
		struct watched *source = watch->sources->pdata[i];

		watched_take(source);
		all = all && source->asked == 0;
	}
	return all;
}

unsigned int
watch_denied(const struct watch *watch)
{
	unsigned int denied = 0;

	for (guint i = 0; i < watch->sources->len; i++)
		denied += watched_is_denied(watch->sources->pdata[i]);
	return denied;
}

bool
watch_lacks_servers(const struct watch *watch)
{
	return watch->searching && g_get_monotonic_time() - watch->searching > G_USEC_PER_SEC;
}
