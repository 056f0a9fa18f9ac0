/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/show/export_columns.h"

#include "tool/failure.h"
#include "tool/show/cells.h"

#include "common/unit.h"

#include <errno.h>
#include <inttypes.h>

struct export_column {
	const char *name, *help;
	const char *member; /* of the object, or "object.member" */
	bool standard;      /* shown by default */
	bool right;         /* aligned to the right, as numbers are */
};

static const struct export_column columns_of_exports[] = {
	{"NAME", "name of the export", "name", true, false},
	{"SIZE", "size in bytes", "size", true, true},
	{"RO", "whether clients can only read", "read_only", true, true},
	{"DIO", "whether direct I/O to the image is on", "direct_io", true, true},
	{"CONNECTIONS", "number of connections", "connections", true, true},
	{"LIMITS", "limits of all clients together", "limits", true, false},
	{"CLIENT-LIMITS", "limits of each client", "client_limits", false, false},
	{"ALLOW", "rules: who can choose the export", "allow", false, false},
	{"ALLOW-WRITE", "rules: who can write", "allow_write", false, false},
	{"ENGINE", "how the server accesses the image", "engine", false, false},
	{"HELD", "requests that a limit holds back now", "limited_now", false, true},
	{"LOOKS-LIKE", "format that the image looks like", "looks_like", false, false},
	{"RO-REASON", "why the server cannot write", "read_only_reason", false, false},
	{"DIO-REASON", "why direct I/O is off", "direct_io_reason", false, false},
	{"SNAPSHOT-OF", "the export that the snapshot was made of", "snapshot.of", false, false},
	{"BACK-FILE", "path of the image", "file", true, false},
	{"DESCRIPTION", "description of the export", "description", false, false},
	{.name = NULL},
};

static const struct export_column columns_of_clients[] = {
	{"ID", "number of the connection", "id", true, true},
	{"EXPORT", "export that the client has chosen", "export", true, false},
	{"RO", "whether the client can only read", "read_only", true, true},
	{"TLS", "version, cipher, and where it is computed", "tls", true, false},
	{"REQUESTS", "requests in progress, and replies being sent", "requests", false, true},
	{"READ-BYTES", "bytes that the client has read", "read_bytes", false, true},
	{"WRITE-BYTES", "bytes that the client has written", "write_bytes", false, true},
	{"LIMITED", "whether a limit holds a request back", "limited", false, true},
	{"IDENTITY", "rules that name this client", "identity", true, false},
	{"CLIENT", "address, or process and user, and names in TLS", "client", true, false},
	{.name = NULL},
};

static const struct export_column *
table_columns(enum export_table table)
{
	return table == EXPORT_TABLE_EXPORTS ? columns_of_exports : columns_of_clients;
}

/* ---- values */

static uint64_t
limit_number(json_t *object, const char *member)
{
	json_int_t number = json_integer_value(json_object_get(object, member));

	return number > 0 ? (uint64_t)number : 0;
}

/* "iops-limit=100,read:50": one of the limits, as an option. */
static void
limits_add(GString *text, json_t *limits, const char *name)
{
	static const char *const parts[] = {"both", "read", "write", "burst"};
	json_t *limit = json_object_get(limits, name);
	const char *separator = "";
	char number[UNIT_SIZE_TEXT];

	if (limit_number(limit, "both") + limit_number(limit, "read") +
		    limit_number(limit, "write") ==
	    0)
		return;
	g_string_append_printf(text, "%s%s-limit=", text->len ? " " : "", name);
	for (size_t i = 0; i < G_N_ELEMENTS(parts); i++) {
		uint64_t value = limit_number(limit, parts[i]);

		if (value == 0)
			continue;
		g_string_append_printf(text, "%s%s%s%s", separator, i ? parts[i] : "", i ? ":" : "",
				       unit_format_size(value, number));
		separator = ",";
	}
}

char *
export_limits_text(json_t *limits)
{
	GString *text;
	uint64_t connections = limit_number(limits, "connections");

	if (!limits)
		return NULL;
	text = g_string_new(NULL);
	limits_add(text, limits, "iops");
	limits_add(text, limits, "bandwidth");
	if (connections)
		g_string_append_printf(text, "%sconnections-limit=%" PRIu64, text->len ? " " : "",
				       connections);
	return g_string_free(text, FALSE);
}

static char *
export_cell(const struct export_column *column, json_t *object)
{
	g_auto(GStrv) steps = g_strsplit(column->member, ".", -1);

	for (char **step = steps; *step; step++)
		object = json_object_get(object, *step);
	return json_is_object(object) ? export_limits_text(object) : cells_text(object, false);
}

/* ---- selections */

static bool
export_columns_add(GPtrArray *columns, enum export_table table, const char *name, GError **error)
{
	for (const struct export_column *column = table_columns(table); column->name; column++) {
		if (g_ascii_strcasecmp(column->name, name) == 0) {
			g_ptr_array_add(columns, (gpointer)column);
			return true;
		}
	}
	return failure(error, EINVAL, "unknown column: %s; nbdloop export --help lists the columns",
		       name);
}

GPtrArray *
export_columns_parse(enum export_table table, const char *names, GError **error)
{
	g_autoptr(GPtrArray) columns = g_ptr_array_new();
	g_auto(GStrv) wanted = NULL;

	for (const struct export_column *column = table_columns(table);
	     (!names || *names == '+') && column->name; column++) {
		if (column->standard)
			g_ptr_array_add(columns, (gpointer)column);
	}
	wanted = g_strsplit(!names ? "" : *names == '+' ? names + 1 : names, ",", -1);
	for (char **name = wanted; *name; name++) {
		if (!export_columns_add(columns, table, *name, error))
			return NULL;
	}
	return g_steal_pointer(&columns);
}

/* ---- output */

void
export_columns_print(FILE *out, const GPtrArray *columns, json_t *objects, bool headings)
{
	g_autoptr(GPtrArray) rows = g_ptr_array_new_with_free_func((GDestroyNotify)g_strfreev);
	size_t count = json_array_size(objects);
	g_autofree bool *right = g_new0(bool, columns->len);

	for (size_t i = headings ? 0 : 1; count > 0 && i <= count; i++) {
		char **cells = g_new0(char *, columns->len + 1);

		for (guint j = 0; j < columns->len; j++) {
			const struct export_column *column = columns->pdata[j];

			right[j] = column->right;
			cells[j] = i == 0 ? g_strdup(column->name)
					  : export_cell(column, json_array_get(objects, i - 1));
		}
		g_ptr_array_add(rows, cells);
	}
	cells_print(out, rows, right, false);
}

void
export_columns_print_help(FILE *out)
{
	fprintf(out, "\nColumns of list:\n");
	for (const struct export_column *column = columns_of_exports; column->name; column++)
		fprintf(out, "    %13s  %s\n", column->name, column->help);
	fprintf(out, "\nColumns of list --clients:\n");
	for (const struct export_column *column = columns_of_clients; column->name; column++)
		fprintf(out, "    %13s  %s\n", column->name, column->help);
}
