/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/backup/chain.h"

#include "tool/backup/delta_end.h"
#include "tool/backup/durable.h"
#include "tool/failure.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>

char *
chain_path(const char *directory, uint64_t number)
{
	g_autofree char *name = g_strdup_printf("%06" G_GUINT64_FORMAT ".delta", number);

	return g_build_filename(directory, name, NULL);
}

static void
free_link(void *data)
{
	struct chain_link *link = data;

	g_free(link->path);
	g_free(link);
}

static bool
read_link(struct chain_link *link, const struct chain_link *parent, GError **error)
{
	int CLEANUP_CLOSE fd = durable_open(link->path, O_RDONLY, error);
	char *CLEANUP_FREE why = NULL;

	if (fd < 0 || !delta_read_header(fd, link->path, &link->header, error))
		return false;
	return delta_header_follows(&link->header, parent ? &parent->header : NULL, &why) == 0 ||
	       failure(error, EBADMSG, "%s: %s", link->path, why ? why : g_strerror(ENOMEM));
}

static int
chain_compare_names(const void *a, const void *b)
{
	return g_strcmp0(*(char *const *)a, *(char *const *)b);
}

/* The names of the deltas, by their numbers. */
static GPtrArray *
find_names(const char *directory, GError **error)
{
	g_autoptr(GError) why = NULL;
	g_autoptr(GDir) dir = g_dir_open(directory, 0, &why);
	GPtrArray *names;
	const char *name;

	if (!dir)
		return FAILURE_NULL(error, ENOENT, "%s", why->message);
	names = g_ptr_array_new_with_free_func(g_free);
	while ((name = g_dir_read_name(dir))) {
		if (g_str_has_suffix(name, ".delta"))
			g_ptr_array_add(names, g_strdup(name));
	}
	g_ptr_array_sort(names, chain_compare_names);
	return names;
}

GPtrArray *
chain_read(const char *directory, GError **error)
{
	g_autoptr(GPtrArray) names = find_names(directory, error);
	g_autoptr(GPtrArray) links = g_ptr_array_new_with_free_func(free_link);

	for (guint i = 0; names && i < names->len; i++) {
		struct chain_link *link = g_new0(struct chain_link, 1);
		const struct chain_link *parent = links->len ? links->pdata[links->len - 1] : NULL;

		g_ptr_array_add(links, link);
		link->path = g_build_filename(directory, names->pdata[i], NULL);
		if (!read_link(link, parent, error))
			return NULL;
	}
	return names ? g_steal_pointer(&links) : NULL;
}
