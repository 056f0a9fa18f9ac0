/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The exports of the plugin and their images. With file= there is one image from start to end. With
 * dir= an image is open while it has clients. It is open only once, even if it has several clients
 * and names, because overlapping writes must exclude each other.
 */
#ifndef PLUGIN_EXPORTS_H
#define PLUGIN_EXPORTS_H

#include "plugins/loop/plugin_config.h"

#include "engine/image/image.h"

#include <stdbool.h>

struct export
{
	struct image *image;
	char *name;              /* by which it was opened first; "" with file= */
	unsigned int references; /* connections, and with file= one more; guarded by the mutex */
	_Atomic unsigned int connections;
	struct export *next;
};

/* Opens the image (file=) or the directory (dir=). Returns 0, or -1 after an error, which is in the
 * log. */
int
exports_start(const struct loop_config *config);

/* Must be called after nbdkit's fork. Returns as exports_start(). */
int
exports_forked(void);

/* Closes all images and the directory. */
void
exports_stop(void);

/*
 * Returns the export of that name for a client that connects, with the image's lock; the caller
 * gives it back with exports_leave(). Returns NULL after an error, which is in the log.
 */
struct export *
exports_join(const char *name, bool writable);
void
exports_leave(struct export *export);

/* Calls `visit` for the name of each file of dir=. If `visit` returns a value other than 0, the
 * visit ends and the function returns that value. Otherwise returns 0, or -errno if the directory
 * can't be read. */
int
exports_visit_names(int (*visit)(void *data, const char *name), void *data);

/* Returns the absolute path of the image, which the caller frees. NULL: out of memory. */
char *
exports_path(const struct export *export);

/* Returns whether dir= was given. */
bool
exports_are_files_of_directory(void);

/*
 * For the control socket: returns the export of that name (NULL: the only one) with a reference,
 * which exports_put() releases. Returns NULL if there is no such export, or if `name` is NULL and
 * there are several.
 */
struct export *
exports_get(const char *name);
void
exports_put(struct export *export);
/* Calls `visit` for each export that is open. None can be closed meanwhile. */
void
exports_visit(void (*visit)(void *data, struct export *export), void *data);

#endif
