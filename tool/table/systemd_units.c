/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/table/systemd_units.h"

#include "tool/device/image_file.h"
#include "tool/failure.h"
#include "tool/link/nbd_uri.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define TEMPLATE SYSTEMD_UNIT_DIR "/nbdloop@.service"

char *
systemd_units_escape_path(const char *path)
{
	g_auto(GStrv) names = g_strsplit(path, "/", -1);
	g_autoptr(GString) text = g_string_new(NULL);

	for (char **name = names; *name; name++) {
		if (!**name)
			continue;
		if (text->len > 0)
			g_string_append_c(text, '-');
		for (const char *c = *name; *c; c++) {
			bool plain = g_ascii_isalnum(*c) || *c == ':' || *c == '_' ||
				     (*c == '.' && text->len > 0);

			if (plain)
				g_string_append_c(text, *c);
			else
				g_string_append_printf(text, "\\x%02x", (unsigned char)*c);
		}
	}
	return text->len > 0 ? g_string_free(g_steal_pointer(&text), FALSE) : g_strdup("-");
}

/* Whether systemd ignores such a path: one that leads upwards, control characters, and what is not
 * UTF-8. */
static bool
is_ignored(const char *path)
{
	g_auto(GStrv) names = g_strsplit(path, "/", -1);

	for (const char *c = path; *c; c++) {
		if (g_ascii_iscntrl(*c))
			return true;
	}
	return g_strv_contains((const char *const *)names, "..") ||
	       !g_utf8_validate(path, -1, NULL);
}

/* The path as a word of a unit file, in which a percent sign begins a specifier.  NULL: *error is
 * set. */
static char *
quote_word(const char *text, GError **error)
{
	const char *mark = strchr(text, '"') ? "'" : "\"";
	g_auto(GStrv) pieces = g_strsplit(text, "%", -1);
	g_autofree char *doubled = g_strjoinv("%%", pieces);
	g_autofree char *printable = NULL;

	if (!is_ignored(text) && !strpbrk(text, strchr(text, '"') ? "'\\" : "\\"))
		return g_strconcat(mark, doubled, mark, NULL);
	printable = g_strescape(text, "\\\"");
	return FAILURE_NULL(error, EINVAL,
			    "%s can't be written in a unit of systemd; rename it, or write it "
			    "without \"..\"",
			    printable);
}

/* ---- dependencies */

/* Whether the image is none of this machine. */
static bool
is_elsewhere(const char *image)
{
	return nbd_uri_is(image) || !image_file_is_here(image);
}

/* The lines with the dependencies of the unit.  Caller frees; NULL: *error is set. */
static char *
unit_dependencies(const struct table_entry *entry, GError **error)
{
	g_autofree char *word = NULL;

	/* A connection that never leaves the machine (nbd+unix, nbd+vsock) needs no network. */
	if (g_str_has_prefix(entry->image, "nbd+") || g_str_has_prefix(entry->image, "nbds+"))
		return g_strdup("");
	if (is_elsewhere(entry->image))
		return g_strdup("Wants=network-online.target\nAfter=network-online.target\n");
	if (g_str_has_prefix(entry->image, "/dev/") &&
	    !g_str_has_prefix(entry->image, "/dev/shm/")) {
		g_autofree char *unit = systemd_units_escape_path(entry->image);

		return g_strdup_printf("BindsTo=%s.device\nAfter=%s.device blockdev@%s.target\n",
				       unit, unit, unit);
	}
	word = quote_word(entry->image, error);
	return word ? g_strdup_printf("RequiresMountsFor=%s\n", word) : NULL;
}

static bool
unit_make_directory(const char *directory, const char *name, char **path, GError **error)
{
	*path = g_build_filename(directory, name, NULL);
	if (g_mkdir_with_parents(*path, 0755) == 0)
		return true;
	return failure_errno(error, errno, "the directory %s can't be made", *path);
}

static bool
write_drop_in(const struct table_entry *entry, const char *directory, const char *unit,
	      const char *lines, GError **error)
{
	g_autofree char *name = g_strconcat(unit, ".d", NULL);
	g_autofree char *text =
		g_strdup_printf("# Made by nbdloop-generator, of %s:%u\n[Unit]\nSourcePath=%s\n%s",
				entry->file, entry->line, entry->file, lines);
	g_autofree char *place = NULL, *path = NULL;
	g_autoptr(GError) why = NULL;

	if (!unit_make_directory(directory, name, &place, error))
		return false;
	path = g_build_filename(place, "50-nbdloop.tab.conf", NULL);
	return g_file_set_contents(path, text, -1, &why) || failure(error, EIO, "%s", why->message);
}

/* `kind`: "wants" or "requires". */
static bool
link_unit_from(const char *directory, const char *other, const char *kind, const char *unit,
	       GError **error)
{
	g_autofree char *name = g_strdup_printf("%s.%s", other, kind);
	g_autofree char *place = NULL, *path = NULL;

	if (!unit_make_directory(directory, name, &place, error))
		return false;
	path = g_build_filename(place, unit, NULL);
	if (symlink(TEMPLATE, path) == 0)
		return true;
	return failure_errno(error, errno, "%s can't be made", path);
}

bool
systemd_units_write(const struct table_entry *entry, const char *directory, GError **error)
{
	const char *target = is_elsewhere(entry->image) ? "remote-fs.target" : "local-fs.target";
	g_autofree char *unit = g_strdup_printf("nbdloop@%s.service", entry->device);
	g_autofree char *device = g_strdup_printf("dev-%s.device", entry->device);
	g_autofree char *lines = unit_dependencies(entry, error);

	return lines && write_drop_in(entry, directory, unit, lines, error) &&
	       link_unit_from(directory, device, "requires", unit, error) &&
	       (!entry->at_boot || link_unit_from(directory, target, "wants", unit, error));
}
