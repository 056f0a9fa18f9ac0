/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/backup/chain.h"

#include "tool/backup/delta_end.h"
#include "tool/backup/durable.h"
#include "tool/failure.h"

#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

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

/* Notes what the file is now, or compares: a merge may replace it at any time. */
static void
chain_note_file(struct chain_link *link, const struct stat *st)
{
	link->size = (uint64_t)st->st_size;
	link->modified = st->st_mtim.tv_sec * INT64_C(1000000000) + st->st_mtim.tv_nsec;
}

int
chain_open(const struct chain_link *link, GError **error)
{
	int CLEANUP_CLOSE fd = durable_open(link->path, O_RDONLY, error);
	struct chain_link now;
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0) {
		failure_errno(error, errno, "%s", link->path);
		return -1;
	}
	chain_note_file(&now, &st);
	if (now.size == link->size && now.modified == link->modified)
		return steal_fd(&fd);
	failure(error, EBUSY, "%s has changed meanwhile: try again", link->path);
	return -1;
}

static bool
read_link(struct chain_link *link, const struct chain_link *parent, GError **error)
{
	int CLEANUP_CLOSE fd = durable_open(link->path, O_RDONLY, error);
	char *CLEANUP_FREE why = NULL;
	struct stat st;

	if (fd < 0 || !delta_read_header(fd, link->path, &link->header, error))
		return false;
	if (fstat(fd, &st) < 0)
		return failure_errno(error, errno, "%s", link->path);
	chain_note_file(link, &st);
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
	/* An error must not look like a directory with fewer backups. */
	for (errno = 0; (name = g_dir_read_name(dir)); errno = 0) {
		if (g_str_has_suffix(name, ".delta"))
			g_ptr_array_add(names, g_strdup(name));
	}
	if (errno != 0) {
		failure_errno(error, errno, "%s: reading its names", directory);
		g_ptr_array_unref(names);
		return NULL;
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

/* ---- merged backups */

/* `highest`: the number of the last link.  The record's fields are another program's. */
static bool
chain_read_end(struct chain_link *link, uint64_t highest, GError **error)
{
	int CLEANUP_CLOSE fd = chain_open(link, error);
	struct delta_record end;

	if (fd < 0 || !delta_read_end(fd, link->path, &link->header, &end, error))
		return false;
	link->records = end.offset;
	link->data = end.length;
	link->last = link->header.number + end.checksum;
	return link->last <= highest ||
	       failure(error, EBADMSG,
		       "%s contains increment %" G_GUINT64_FORMAT
		       ", and the chain ends with increment %" G_GUINT64_FORMAT
		       ": later files are missing",
		       link->path, link->last, highest);
}

bool
chain_read_ends(GPtrArray *links, GError **error)
{
	uint64_t contained = 0;

	for (guint i = 0; i < links->len; i++) {
		struct chain_link *link = links->pdata[i];

		if (!chain_read_end(link, links->len - 1, error))
			return false;
		/* What was merged into an increment is in what that was merged into. */
		link->merged = i && link->header.number <= contained;
		contained = MAX(contained, link->last);
	}
	return true;
}

void
chain_remove_merged(GPtrArray *links)
{
	for (guint i = links->len; i-- > 0;) {
		const struct chain_link *link = links->pdata[i];

		if (link->merged)
			g_ptr_array_remove_index(links, i);
	}
}
