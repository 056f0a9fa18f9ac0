/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/show/columns.h"

#include "tool/failure.h"
#include "tool/show/json_text.h"
#include "tool/show/plain_text.h"

#include <errno.h>
#include <string.h>
#include <sys/sysmacros.h>

struct column {
	const char *name; /* JSON has it in small letters */
	const char *help;
	bool right;                                        /* numbers are compared more easily so */
	JsonNode *(*value)(const struct listing *listing); /* NULL: it is only a member */
	const char *member; /* of the image's status: listing_member() */
};

/* ---- values */

static JsonNode *
node_of_text(const char *text)
{
	/* An identifier may hold any bytes. */
	g_autofree char *valid = text ? g_utf8_make_valid(text, -1) : NULL;
	JsonNode *node = json_node_new(valid ? JSON_NODE_VALUE : JSON_NODE_NULL);

	if (valid)
		json_node_set_string(node, valid);
	return node;
}

static JsonNode *
node_of_number(uint64_t number)
{
	return json_node_init_int(json_node_alloc(), (gint64)number);
}

static JsonNode *
node_of_flag(bool flag)
{
	return json_node_init_boolean(json_node_alloc(), flag);
}

static JsonNode *
value_name(const struct listing *listing)
{
	g_autofree char *path = g_strconcat("/dev/", listing->device->name, NULL);

	return node_of_text(path);
}

static JsonNode *
value_back_file(const struct listing *listing)
{
	g_autofree char *source = listing_source(listing);

	return node_of_text(source);
}

/* One number of the text "8:1", where there is one. */
static JsonNode *
value_back_number(const struct listing *listing, unsigned int which)
{
	g_autoptr(JsonNode) node = listing_member(listing, "device");
	unsigned int numbers[2];

	if (JSON_NODE_HOLDS_VALUE(node) && json_node_get_value_type(node) == G_TYPE_STRING &&
	    sscanf(json_node_get_string(node), "%u:%u", &numbers[0], &numbers[1]) == 2)
		return node_of_number(numbers[which]);
	return node_of_text(NULL);
}

static JsonNode *
value_back_major(const struct listing *listing)
{
	return value_back_number(listing, 0);
}

static JsonNode *
value_back_minor(const struct listing *listing)
{
	return value_back_number(listing, 1);
}

static JsonNode *
value_device(const struct listing *listing)
{
	dev_t number = listing->device->number;
	g_autofree char *text = g_strdup_printf("%u:%u", major(number), minor(number));

	return node_of_text(text);
}

static JsonNode *
value_major(const struct listing *listing)
{
	return node_of_number(major(listing->device->number));
}

static JsonNode *
value_minor(const struct listing *listing)
{
	return node_of_number(minor(listing->device->number));
}

static JsonNode *
value_partscan(const struct listing *listing)
{
	return node_of_flag(listing->device->scans_partitions);
}

static JsonNode *
value_read_only(const struct listing *listing)
{
	return node_of_flag(listing->device->read_only);
}

static JsonNode *
value_block_size(const struct listing *listing)
{
	return node_of_number(listing->device->block_size);
}

static JsonNode *
value_size(const struct listing *listing)
{
	return node_of_number(listing->device->size);
}

static JsonNode *
value_server(const struct listing *listing)
{
	return node_of_text(listing->server);
}

static JsonNode *
value_server_pid(const struct listing *listing)
{
	JsonNode *node = listing->status ? json_object_dup_member(listing->status, "pid") : NULL;

	return node ? node : node_of_text(NULL);
}

static JsonNode *
value_guard(const struct listing *listing)
{
	return listing->guard >= 0 ? node_of_number((uint64_t)listing->guard) : node_of_text(NULL);
}

static JsonNode *
value_pid(const struct listing *listing)
{
	return node_of_number((uint64_t)listing->device->pid);
}

static JsonNode *
value_backend(const struct listing *listing)
{
	const char *backend = listing->device->backend;

	/* nbd-client, when it isn't told one, gives an empty one. */
	return node_of_text(backend && *backend ? backend : NULL);
}

/* ---- the columns, in losetup's order, then our own */

static const struct column all[] = {
	{"NAME", "device name", false, value_name, NULL},
	{"BACK-FILE", "image file or device, or URI of the remote server", false, value_back_file,
	 NULL},
	{"BACK-INO", "inode number of the image file", true, NULL, "inode"},
	{"BACK-MAJ:MIN", "major:minor number of the device that holds the image", false, NULL,
	 "device"},
	{"BACK-MAJ", "major number of the device that holds the image", true, value_back_major,
	 NULL},
	{"BACK-MIN", "minor number of the device that holds the image", true, value_back_minor,
	 NULL},
	{"MAJ:MIN", "major:minor device number", false, value_device, NULL},
	{"MAJ", "major device number", true, value_major, NULL},
	{"MIN", "minor device number", true, value_minor, NULL},
	{"OFFSET", "offset from the beginning of the image, in bytes", true, NULL, "offset"},
	{"PARTSCAN", "whether the kernel scans for partitions", true, value_partscan, NULL},
	{"RO", "whether the device is read-only", true, value_read_only, NULL},
	{"SIZELIMIT", "limit of the device's size, in bytes", true, NULL, "sizelimit"},
	{"DIO", "whether direct I/O to the image is on", true, NULL, "direct_io"},
	{"LOG-SEC", "logical sector size in bytes", true, value_block_size, NULL},
	{"SIZE", "size of the device in bytes", true, value_size, NULL},
	{"SERVER", "program that serves the image, or `remote'", false, value_server, NULL},
	{"SERVER-PID", "process ID of the server", true, value_server_pid, NULL},
	{"CONNECTIONS", "number of connections to the server", true, NULL, "connections"},
	{"ENGINE", "how the server accesses the image", false, NULL, "engine"},
	{"POLL", "whether the server polls the drive for completions", true, NULL, "poll"},
	{"GUARD", "process that restarts the server; 0: it was killed", true, value_guard, NULL},
	{"PID", "process that attached the device, as the kernel reports it", true, value_pid,
	 NULL},
	{"BACKEND", "identifier that the device was attached with", false, value_backend, NULL},
};

/* Other columns of losetup, left out on purpose: their values cannot be known. */
static const struct {
	const char *name, *why;
} left_out[] = {
	{"AUTOCLEAR", "the kernel doesn't tell of an nbd device whether it ends when it is closed"},
	{"REF", "an nbd device has no such text; BACKEND is what it was attached with"},
};

static const char default_names[] = "NAME,SIZELIMIT,OFFSET,RO,BACK-FILE,DIO,LOG-SEC";

/* ---- selections */

GPtrArray *
columns_all(void)
{
	GPtrArray *columns = g_ptr_array_new();

	for (size_t i = 0; i < G_N_ELEMENTS(all); i++)
		g_ptr_array_add(columns, (gpointer)&all[i]);
	return columns;
}

GPtrArray *
columns_default(void)
{
	return columns_parse(default_names, NULL);
}

static const struct column *
column_find(const char *name)
{
	for (size_t i = 0; i < G_N_ELEMENTS(all); i++) {
		if (g_ascii_strcasecmp(all[i].name, name) == 0)
			return &all[i];
	}
	return NULL;
}

static bool
refuse_column(const char *name, GError **error)
{
	for (size_t i = 0; i < G_N_ELEMENTS(left_out); i++) {
		if (g_ascii_strcasecmp(left_out[i].name, name) == 0)
			return failure(error, EINVAL, "there is no column %s: %s", left_out[i].name,
				       left_out[i].why);
	}
	return failure(error, EINVAL, "unknown column: %s; nbdloop list --help lists the columns",
		       name);
}

GPtrArray *
columns_parse(const char *names, GError **error)
{
	g_autoptr(GPtrArray) columns = *names == '+' ? columns_default() : g_ptr_array_new();
	g_auto(GStrv) wanted = g_strsplit(*names == '+' ? names + 1 : names, ",", -1);

	for (char **name = wanted; *name; name++) {
		const struct column *column = column_find(*name);

		if (!column) {
			refuse_column(*name, error);
			return NULL;
		}
		g_ptr_array_add(columns, (gpointer)column);
	}
	return g_steal_pointer(&columns);
}

/* ---- a table of text */

static JsonNode *
column_value(const struct column *column, const struct listing *listing)
{
	return column->value ? column->value(listing) : listing_member(listing, column->member);
}

static char *
cell_text(const struct column *column, const struct listing *listing, bool raw)
{
	g_autoptr(JsonNode) node = column_value(column, listing);

	if (JSON_NODE_HOLDS_NULL(node))
		return g_strdup("");
	if (json_node_get_value_type(node) == G_TYPE_STRING)
		return plain_text(json_node_get_string(node), raw);
	if (json_node_get_value_type(node) == G_TYPE_BOOLEAN)
		return g_strdup(json_node_get_boolean(node) ? "1" : "0");
	return g_strdup_printf("%" G_GINT64_FORMAT, json_node_get_int(node));
}

/* Rows of cells, char *** in all; the headings first, unless there are none. */
static GPtrArray *
make_cells(const GPtrArray *columns, const GPtrArray *listings, unsigned int flags)
{
	GPtrArray *rows = g_ptr_array_new_with_free_func((GDestroyNotify)g_strfreev);

	for (guint i = flags & COLUMNS_NO_HEADINGS ? 1 : 0; i <= listings->len; i++) {
		char **cells = g_new0(char *, columns->len + 1);

		for (guint j = 0; j < columns->len; j++) {
			const struct column *column = columns->pdata[j];

			cells[j] = i == 0 ? g_strdup(column->name)
					  : cell_text(column, listings->pdata[i - 1],
						      flags & COLUMNS_RAW);
		}
		g_ptr_array_add(rows, cells);
	}
	return rows;
}

static int
column_width(const GPtrArray *rows, guint column)
{
	glong width = 0;

	for (guint i = 0; i < rows->len; i++)
		width = MAX(width, g_utf8_strlen(((char **)rows->pdata[i])[column], -1));
	return (int)width;
}

static void
append_cell(GString *line, const char *cell, int width, bool right)
{
	int blanks = width - (int)g_utf8_strlen(cell, -1);

	if (right)
		g_string_append_printf(line, "%*s", MAX(blanks, 0), "");
	g_string_append(line, cell);
	if (!right)
		g_string_append_printf(line, "%*s", MAX(blanks, 0), "");
}

void
columns_print(FILE *out, const GPtrArray *columns, const GPtrArray *listings, unsigned int flags)
{
	g_autoptr(GPtrArray) rows = NULL;
	g_autofree int *widths = g_new0(int, columns->len);

	if (listings->len == 0)
		return;
	rows = make_cells(columns, listings, flags);
	for (guint j = 0; j < columns->len && !(flags & COLUMNS_RAW); j++)
		widths[j] = column_width(rows, j);
	for (guint i = 0; i < rows->len; i++) {
		g_autoptr(GString) line = g_string_new(NULL);

		for (guint j = 0; j < columns->len; j++) {
			const struct column *column = columns->pdata[j];

			if (j > 0)
				g_string_append_c(line, ' ');
			append_cell(line, ((char **)rows->pdata[i])[j], widths[j], column->right);
		}
		if (!(flags & COLUMNS_RAW))
			g_strchomp(line->str);
		fprintf(out, "%s\n", line->str);
	}
}

/* ---- JSON */

JsonObject *
columns_object(const GPtrArray *columns, const struct listing *listing)
{
	JsonObject *object = json_object_new();

	for (guint i = 0; i < columns->len; i++) {
		const struct column *column = columns->pdata[i];
		g_autofree char *name = g_ascii_strdown(column->name, -1);

		json_object_set_member(object, name, column_value(column, listing));
	}
	return object;
}

void
columns_print_json(FILE *out, const GPtrArray *columns, const GPtrArray *listings)
{
	g_autoptr(JsonObject) object = json_object_new();
	JsonArray *array = json_array_new();

	for (guint i = 0; i < listings->len; i++)
		json_array_add_object_element(array, columns_object(columns, listings->pdata[i]));
	json_object_set_array_member(object, "nbddevices", array);
	json_text_print(out, object, true);
}

void
columns_print_help(FILE *out)
{
	fprintf(out, "\nColumns:\n");
	for (size_t i = 0; i < G_N_ELEMENTS(all); i++)
		fprintf(out, "    %12s  %s\n", all[i].name, all[i].help);
}
