/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/show/columns.h"

#include "tool/failure.h"
#include "tool/show/cells.h"
#include "tool/show/output.h"

#include <errno.h>
#include <sys/sysmacros.h>

/* Where a column's value comes from. */
enum fact {
	FACT_OF_IMAGE, /* a member of the image's status: listing_member() */
	FACT_CONNECTIONS,
	FACT_NAME,
	FACT_BACK_FILE,
	FACT_BACK_MAJOR,
	FACT_BACK_MINOR,
	FACT_NUMBER,
	FACT_MAJOR,
	FACT_MINOR,
	FACT_PARTSCAN,
	FACT_READ_ONLY,
	FACT_BLOCK_SIZE,
	FACT_SIZE,
	FACT_SERVER,
	FACT_REMOTE,
	FACT_SERVER_PID,
	FACT_TLS,
	FACT_GUARD,
	FACT_PID,
	FACT_BACKEND,
};

struct column {
	const char *name; /* in lower case in JSON */
	const char *help;
	bool right; /* aligned to the right, as numbers are */
	enum fact fact;
	const char *member; /* of FACT_OF_IMAGE */
};

/* ---- values */

static json_t *
value_of_text(const char *text)
{
	/* An identifier may hold any bytes. */
	g_autofree char *valid = text ? g_utf8_make_valid(text, -1) : NULL;

	return valid ? json_string(valid) : json_null();
}

static json_t *
value_of_owned_text(char *text)
{
	g_autofree char *owned = text;

	return value_of_text(owned);
}

static json_t *
value_of_number(uint64_t number)
{
	return json_integer((json_int_t)number);
}

/* One number of the text "8:1", where there is one. */
static json_t *
back_number(const struct listing *listing, unsigned int which)
{
	json_auto_t *text = listing_member(listing, "device");
	unsigned int numbers[2];

	if (json_is_string(text) &&
	    sscanf(json_string_value(text), "%u:%u", &numbers[0], &numbers[1]) == 2)
		return value_of_number(numbers[which]);
	return json_null();
}

static json_t *
column_value(const struct column *column, const struct listing *listing)
{
	const struct device *device = listing->device;
	json_t *pid = json_object_get(listing->status, "pid");

	switch (column->fact) {
	case FACT_OF_IMAGE: return listing_member(listing, column->member);
	case FACT_CONNECTIONS:
		return listing->connections ? value_of_number(listing->connections)
					    : listing_member(listing, "connections");
	case FACT_NAME: return value_of_owned_text(g_strconcat("/dev/", device->name, NULL));
	case FACT_BACK_FILE: return value_of_owned_text(listing_source(listing));
	case FACT_BACK_MAJOR: return back_number(listing, 0);
	case FACT_BACK_MINOR: return back_number(listing, 1);
	case FACT_NUMBER:
		return value_of_owned_text(
			g_strdup_printf("%u:%u", major(device->number), minor(device->number)));
	case FACT_MAJOR: return value_of_number(major(device->number));
	case FACT_MINOR: return value_of_number(minor(device->number));
	case FACT_PARTSCAN: return json_boolean(device->scans_partitions);
	case FACT_READ_ONLY: return json_boolean(device->read_only);
	case FACT_BLOCK_SIZE: return value_of_number(device->block_size);
	case FACT_SIZE: return value_of_number(device->size);
	case FACT_SERVER: return value_of_text(listing->server);
	case FACT_REMOTE: return value_of_text(listing->remote);
	case FACT_SERVER_PID: return pid ? json_incref(pid) : json_null();
	case FACT_TLS: return value_of_text(listing->tls);
	case FACT_GUARD:
		return listing->guard >= 0 ? value_of_number((uint64_t)listing->guard)
					   : json_null();
	case FACT_PID: return value_of_number((uint64_t)device->pid);
	case FACT_BACKEND:
		/* nbd-client, when it isn't told one, gives an empty one. */
		return value_of_text(device->backend && *device->backend ? device->backend : NULL);
	}
	return json_null();
}

/* ---- the columns, in losetup's order, then our own */

static const struct column all[] = {
	{"NAME", "device name", false, FACT_NAME, NULL},
	{"BACK-FILE", "image file or device, or URI of the remote server", false, FACT_BACK_FILE,
	 NULL},
	{"BACK-INO", "inode number of the image file", true, FACT_OF_IMAGE, "inode"},
	{"BACK-MAJ:MIN", "major:minor number of the device that holds the image", false,
	 FACT_OF_IMAGE, "device"},
	{"BACK-MAJ", "major number of the device that holds the image", true, FACT_BACK_MAJOR,
	 NULL},
	{"BACK-MIN", "minor number of the device that holds the image", true, FACT_BACK_MINOR,
	 NULL},
	{"MAJ:MIN", "major:minor device number", false, FACT_NUMBER, NULL},
	{"MAJ", "major device number", true, FACT_MAJOR, NULL},
	{"MIN", "minor device number", true, FACT_MINOR, NULL},
	{"OFFSET", "offset from the beginning of the image, in bytes", true, FACT_OF_IMAGE,
	 "offset"},
	{"PARTSCAN", "whether the kernel scans for partitions", true, FACT_PARTSCAN, NULL},
	{"RO", "whether the device is read-only", true, FACT_READ_ONLY, NULL},
	{"SIZELIMIT", "limit of the device's size, in bytes", true, FACT_OF_IMAGE, "sizelimit"},
	{"DIO", "whether direct I/O to the image is on", true, FACT_OF_IMAGE, "direct_io"},
	{"LOG-SEC", "logical sector size in bytes", true, FACT_BLOCK_SIZE, NULL},
	{"SIZE", "size of the device in bytes", true, FACT_SIZE, NULL},
	{"SERVER", "program that serves the image, or `remote'", false, FACT_SERVER, NULL},
	{"SERVER-PID", "process ID of the server", true, FACT_SERVER_PID, NULL},
	{"CONNECTIONS", "number of connections to the server", true, FACT_CONNECTIONS, NULL},
	{"ENGINE", "how the server accesses the image", false, FACT_OF_IMAGE, "engine"},
	{"POLL", "whether the server polls the drive for completions", true, FACT_OF_IMAGE, "poll"},
	{"REMOTE", "remote server that is in use, as host and port", false, FACT_REMOTE, NULL},
	{"TLS", "how the connections to a remote server are encrypted", false, FACT_TLS, NULL},
	{"GUARD", "process that restarts the server; 0: it was killed", true, FACT_GUARD, NULL},
	{"PID", "process that attached the device, as the kernel reports it", true, FACT_PID, NULL},
	{"BACKEND", "identifier that the device was attached with", false, FACT_BACKEND, NULL},
};

/* Other columns of losetup, left out on purpose: their values cannot be known. */
static const struct {
	const char *name, *why;
} left_out[] = {
	{"AUTOCLEAR",
	 "the kernel doesn't report whether an nbd device will be detached when it is closed"},
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

static char *
cell_text(const struct column *column, const struct listing *listing, bool raw)
{
	json_auto_t *value = column_value(column, listing);

	return cells_text(value, raw);
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

void
columns_print(FILE *out, const GPtrArray *columns, const GPtrArray *listings, unsigned int flags)
{
	g_autoptr(GPtrArray) rows = NULL;
	g_autofree bool *right = g_new0(bool, columns->len);

	if (listings->len == 0)
		return;
	rows = make_cells(columns, listings, flags);
	for (guint j = 0; j < columns->len; j++)
		right[j] = ((const struct column *)columns->pdata[j])->right;
	cells_print(out, rows, right, flags & COLUMNS_RAW);
}

/* ---- JSON */

json_t *
columns_object(const GPtrArray *columns, const struct listing *listing)
{
	json_t *object = json_object();

	for (guint i = 0; i < columns->len; i++) {
		const struct column *column = columns->pdata[i];
		g_autofree char *name = g_ascii_strdown(column->name, -1);

		json_object_set_new(object, name, column_value(column, listing));
	}
	return object;
}

void
columns_print_json(FILE *out, const GPtrArray *columns, const GPtrArray *listings)
{
	json_auto_t *object = json_object();
	json_t *array = json_array();

	for (guint i = 0; i < listings->len; i++)
		json_array_append_new(array, columns_object(columns, listings->pdata[i]));
	json_object_set_new(object, "nbddevices", array);
	output_json(out, object, true);
}

void
columns_print_help(FILE *out)
{
	fprintf(out, "\nColumns:\n");
	for (size_t i = 0; i < G_N_ELEMENTS(all); i++)
		fprintf(out, "    %12s  %s\n", all[i].name, all[i].help);
}
