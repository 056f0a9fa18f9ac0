/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table /etc/nbdloop.tab of devices that are attached at boot or by name: nbdloop.tab(5).
 */
#ifndef TOOL_TABLE_TABLE_H
#define TOOL_TABLE_TABLE_H

#include "tool/attach/attach_options.h"

#include <glib.h>
#include <stdbool.h>

struct table_entry {
	char *device; /* "nbd0" */
	char *image;  /* absolute path, or an NBD URI */
	struct attach_options options;
	bool at_boot;      /* without "noauto" */
	char *file;        /* of the entry */
	unsigned int line; /* from 1 on */
};

struct table {
	GPtrArray *entries; /* struct table_entry *, in their order */
	GPtrArray *errors; /* char *, a sentence for each invalid line: "/etc/nbdloop.tab:3: ..." */
};

/* Where the table is: "/etc/nbdloop.tab", or the same below $NBDLOOP_SYSROOT.  Caller frees
 * (g_free). */
char *
table_path(void);

/* Reads the file `path`, then the files `path`.d/NAME.conf in the order of their names. Missing
 * files count as empty.  Each invalid line becomes an error; the others become entries. */
void
table_read(struct table *table, const char *path);
void
table_fini(struct table *table);

#define TABLE_CLEANUP __attribute__((cleanup(table_fini)))

/* Logs the invalid lines.  Returns whether there are none. */
bool
table_log_errors(const struct table *table);

/* The entry of a device, "nbd0"; NULL: there is none. */
const struct table_entry *
table_find(const struct table *table, const char *device);

#endif
