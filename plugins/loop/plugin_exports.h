/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exports of the plugin and the images behind them.  With file= there is one image from start
 * to end; with dir= an image is open while it has a client, once, however many clients and names it
 * has: its writes must exclude each other.
 */
#ifndef PLUGIN_EXPORTS_H
#define PLUGIN_EXPORTS_H

#include "plugins/loop/plugin_config.h"

#include "engine/image/image.h"

#include <stdbool.h>

struct export_image {
	struct image *image;
	char *name;              /* of the export by which it was opened first; "" with file= */
	unsigned int references; /* connections, and the table itself with file= */
	_Atomic unsigned int connections;
	struct export_image *next;
};

/* Opens the image (file=) or the directory (dir=). Errors are in the log.  0 or -1. */
int
exports_start(const struct loop_config *config);

/* Closes everything. */
void
exports_stop(void);

/*
 * A client connects: the image of that export, with its lock.  Errors are in the log.  NULL:
 * refused. exports_leave() gives it back.
 */
struct export_image *
exports_join(const char *name, bool writable);
void
exports_leave(struct export_image *export_image);

/* Calls `visit` for the name of each file of dir=, until it returns nonzero, and returns that;
 * -errno if the directory can't be read. */
int
exports_visit_names(int (*visit)(void *data, const char *name), void *data);

/* The absolute path of the image.  Caller frees; NULL: out of memory. */
char *
exports_path(const struct export_image *export_image);

/* Whether dir= was given. */
bool
exports_are_files_of_directory(void);

/*
 * For the control socket: holds the export of that name (NULL: the only one), or all that are open,
 * while something is done with it. exports_put() lets go. NULL: no such export, or not only one.
 */
struct export_image *
exports_get(const char *name);
void
exports_put(struct export_image *export_image);
void
exports_visit(void (*visit)(void *data, struct export_image *export_image), void *data);

#endif
