/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/table/table.h"

#include "tool/attach/attach_plan.h"
#include "tool/device/device.h"
#include "tool/device/image_file.h"
#include "tool/failure.h"
#include "tool/link/nbd_uri.h"
#include "tool/system_file.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <string.h>

enum {
	FIELDS = 3, /* device, image, options */
};

static void
table_entry_free(struct table_entry *entry)
{
	if (!entry)
		return;
	options_free(attach_option_rows, &entry->options);
	g_free(entry->device);
	g_free(entry->image);
	g_free(entry->file);
	g_free(entry);
}

static void
entry_cleanup(struct table_entry **entry)
{
	table_entry_free(*entry);
}

#define ENTRY_CLEANUP __attribute__((cleanup(entry_cleanup)))

/* ---- words of a line */

/* As in fstab(5), a backslash and three octal digits stand for a byte.  NULL: *error is set. */
static char *
unescape_word(const char *word, GError **error)
{
	g_autoptr(GString) text = g_string_new(NULL);

	for (; *word; word++) {
		int byte = (unsigned char)*word;

		if (byte == '\\') {
			if (strspn(word + 1, "01234567") < 3)
				byte = 0;
			else
				byte = (word[1] - '0') * 64 + (word[2] - '0') * 8 + (word[3] - '0');
			if (byte == 0 || byte > 255)
				return FAILURE_NULL(
					error, EINVAL,
					"a backslash must begin three octal digits: \\040 is a space, \\134 a backslash");
			word += 3;
		}
		g_string_append_c(text, (char)byte);
	}
	return g_string_free(g_steal_pointer(&text), FALSE);
}

/* The words of a line, up to a comment. */
static GStrv
split_words(const char *line)
{
	g_auto(GStrv) pieces = g_strsplit_set(line, " \t\r", -1);
	g_autoptr(GStrvBuilder) words = g_strv_builder_new();

	for (char **piece = pieces; *piece && **piece != '#'; piece++) {
		if (**piece)
			g_strv_builder_add(words, *piece);
	}
	return g_strv_builder_end(words);
}

/* ---- options */

/* The options of a text with commas between them.  A limit has commas, too ("read:5,write:7"): what
 * has a colon goes on the value before it, since no option's name has one. */
static GStrv
split_options(const char *text)
{
	g_auto(GStrv) pieces = g_strsplit(text, ",", -1);
	g_autoptr(GStrvBuilder) words = g_strv_builder_new();
	g_autofree char *word = NULL;

	for (char **piece = pieces; *piece; piece++) {
		bool goes_on = word && (*piece)[strcspn(*piece, ":=")] == ':';
		char *next = goes_on ? g_strconcat(word, ",", *piece, NULL) : g_strdup(*piece);

		if (word && !goes_on)
			g_strv_builder_add(words, word);
		g_free(word);
		word = next;
	}
	if (word)
		g_strv_builder_add(words, word);
	return g_strv_builder_end(words);
}

/* Whether an option was given before; one of its two values would be lost. */
static bool
is_given(char *const *words, char *const *word, const char *name)
{
	size_t length = strlen(name);

	for (; words < word; words++) {
		if (strncmp(*words, name, length) == 0 &&
		    ((*words)[length] == '\0' || (*words)[length] == '='))
			return true;
	}
	return false;
}

static bool
entry_set_option(struct table_entry *entry, const char *name, const char *value, GError **error)
{
	const struct option_row *row = option_find(attach_option_rows, name);
	char *CLEANUP_FREE why = NULL;
	int r;

	if (!row)
		return failure(error, EINVAL,
			       "there is no option \"%s\"; nbdloop.tab(5) lists the options", name);
	if (strcmp(name, "find") == 0 || strcmp(name, "show") == 0)
		return failure(error, EINVAL,
			       "the option %s is for the command line; here the device is named",
			       name);
	if (!value && !row->alone)
		return failure(error, EINVAL, "%s needs a value: %s=%s", name, name, row->arg);
	r = option_set(attach_option_rows, &entry->options, name, value ? value : row->alone, &why);
	return r == 0 || failure(error, -r, "%s", why ? why : g_strerror(-r));
}

static bool
set_options(struct table_entry *entry, const char *text, GError **error)
{
	g_auto(GStrv) words = split_options(text);

	for (char **word = words; *word; word++) {
		char *value = strchr(*word, '=');
		g_autofree char *name =
			value ? g_strndup(*word, (gsize)(value - *word)) : g_strdup(*word);

		if (!*name)
			return failure(
				error, EINVAL,
				"an option is missing: \"%s\" has an extra comma or equals sign",
				text);
		if (is_given(words, word, name))
			return failure(error, EINVAL, "the option %s is given twice", name);
		if (strcmp(*word, "noauto") == 0)
			entry->at_boot = false;
		else if (!entry_set_option(entry, name, value ? value + 1 : NULL, error))
			return false;
	}
	return true;
}

/* The current directory is whatever it happens to be. */
static bool
entry_check_absolute(const struct table_entry *entry, GError **error)
{
	for (const struct option_row *row = attach_option_rows; row->name; row++) {
		char *CLEANUP_FREE value = option_value_text(row, &entry->options);

		if (option_is_path(row) && value && *value && !g_path_is_absolute(value))
			return failure(error, EINVAL, "%s=%s must be an absolute path", row->name,
				       value);
	}
	return true;
}

/* Finds the errors that attaching would report. */
static bool
entry_check_options(const struct table_entry *entry, GError **error)
{
	struct guard_plan plan;
	bool good = attach_options_plan(&entry->options, g_strdup(entry->image),
					nbd_uri_is(entry->image), &plan, error);

	guard_plan_fini(&plan);
	return good && entry_check_absolute(entry, error);
}

/* ---- lines */

static bool
fill_entry(struct table_entry *entry, GStrv words, GError **error)
{
	guint count = g_strv_length(words);

	if (count < FIELDS - 1)
		return failure(
			error, EINVAL,
			"a line has a device, an image or NBD URI, and options, separated by blanks");
	if (count > FIELDS)
		return failure(error, EINVAL,
			       "\"%s\" is one word too many; a space in a name is written \\040",
			       words[FIELDS]);
	for (guint i = 0; i < count; i++) {
		char *text = unescape_word(words[i], error);

		if (!text)
			return false;
		g_free(words[i]);
		words[i] = text;
	}
	entry->device = device_name(words[0], error);
	if (!entry->device)
		return false;
	entry->image = g_strdup(words[1]);
	if (!g_path_is_absolute(entry->image) && !nbd_uri_is(entry->image) &&
	    image_file_is_here(entry->image))
		return failure(
			error, EINVAL,
			"%s is neither an absolute path nor an NBD URI, nor an image in Ceph (rbd:POOL/IMAGE) or on a web server (https://HOST/PATH)",
			entry->image);
	return (count < FIELDS || set_options(entry, words[2], error)) &&
	       entry_check_options(entry, error);
}

static struct table_entry *
entry_parse(const struct table *table, const char *file, unsigned int line, GStrv words,
	    GError **error)
{
	struct table_entry *ENTRY_CLEANUP entry = g_new0(struct table_entry, 1);
	const struct table_entry *other;

	entry->file = g_strdup(file);
	entry->line = line;
	entry->at_boot = true;
	if (options_init(attach_option_rows, &entry->options) < 0)
		return FAILURE_NULL(error, ENOMEM, "%s", g_strerror(ENOMEM));
	if (!fill_entry(entry, words, error))
		return NULL;
	other = table_find(table, entry->device);
	if (other)
		return FAILURE_NULL(error, EEXIST, "/dev/%s already has a line: %s:%u",
				    entry->device, other->file, other->line);
	return steal_pointer(&entry);
}

static void
table_take_line(struct table *table, const char *file, unsigned int line, const char *text)
{
	g_auto(GStrv) words = split_words(text);
	g_autoptr(GError) error = NULL;
	struct table_entry *entry;

	if (!*words)
		return;
	entry = entry_parse(table, file, line, words, &error);
	if (entry)
		g_ptr_array_add(table->entries, entry);
	else
		g_ptr_array_add(table->errors,
				g_strdup_printf("%s:%u: %s", file, line, error->message));
}

/* ---- files */

static void
read_file(struct table *table, const char *path)
{
	g_autofree char *text = NULL;
	g_autoptr(GError) why = NULL;
	unsigned int number = 1;
	gsize length;
	char *line;

	if (!g_file_get_contents(path, &text, &length, &why)) {
		if (!g_error_matches(why, G_FILE_ERROR, G_FILE_ERROR_NOENT))
			g_ptr_array_add(table->errors, g_strdup(why->message));
		return;
	}
	/* A byte order mark, as some editors write it. */
	line = text + (g_str_has_prefix(text, "\xEF\xBB\xBF") ? 3 : 0);
	for (char *next; line; line = next) {
		gsize left = length - (gsize)(line - text);

		next = memchr(line, '\n', left);
		if (next)
			*next++ = '\0';
		if (strlen(line) < (next ? (gsize)(next - line) - 1 : left))
			g_ptr_array_add(
				table->errors,
				g_strdup_printf("%s:%u: a line has no NUL byte", path, number));
		else
			table_take_line(table, path, number, line);
		number++;
	}
}

static int
table_compare_names(gconstpointer a, gconstpointer b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void
read_directory(struct table *table, const char *path)
{
	g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
	g_autoptr(GError) why = NULL;
	g_autoptr(GDir) directory = g_dir_open(path, 0, &why);
	const char *name;

	if (!directory && !g_error_matches(why, G_FILE_ERROR, G_FILE_ERROR_NOENT))
		g_ptr_array_add(table->errors, g_strdup(why->message));
	/* An editor may leave files with other names. */
	while (directory && (name = g_dir_read_name(directory)) != NULL) {
		if (g_str_has_suffix(name, ".conf") && *name != '.')
			g_ptr_array_add(names, g_build_filename(path, name, NULL));
	}
	g_ptr_array_sort(names, table_compare_names);
	for (guint i = 0; i < names->len; i++)
		read_file(table, names->pdata[i]);
}

/* ---- the table */

char *
table_path(void)
{
	return system_file_path("/etc/nbdloop.tab");
}

void
table_read(struct table *table, const char *path)
{
	g_autofree char *directory = g_strconcat(path, ".d", NULL);

	table->entries = g_ptr_array_new_with_free_func((GDestroyNotify)table_entry_free);
	table->errors = g_ptr_array_new_with_free_func(g_free);
	read_file(table, path);
	read_directory(table, directory);
}

void
table_fini(struct table *table)
{
	if (table->entries)
		g_ptr_array_unref(table->entries);
	if (table->errors)
		g_ptr_array_unref(table->errors);
	*table = (struct table){.entries = NULL};
}

const struct table_entry *
table_find(const struct table *table, const char *device)
{
	for (guint i = 0; i < table->entries->len; i++) {
		const struct table_entry *entry = g_ptr_array_index(table->entries, i);

		if (strcmp(entry->device, device) == 0)
			return entry;
	}
	return NULL;
}

bool
table_log_errors(const struct table *table)
{
	for (guint i = 0; i < table->errors->len; i++)
		log_error("%s", (const char *)g_ptr_array_index(table->errors, i));
	return table->errors->len == 0;
}
