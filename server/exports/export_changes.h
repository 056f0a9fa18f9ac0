/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes of the exports while clients are connected: one after the other, each on the thread that
 * asks for it.
 */
#ifndef SERVER_EXPORTS_EXPORT_CHANGES_H
#define SERVER_EXPORTS_EXPORT_CHANGES_H

#include "server/config/server_config.h"

struct exports;

/* Opens an export, and says in the log what runs.  Takes over the configuration, which stands
 * alone.  Returns 0, or -errno with *error a sentence (caller frees). */
int
exports_add(struct exports *exports, struct export_config *config, char **error);

/* Offers it no longer; its connections stay.  0 or -ENOENT. */
int
exports_remove(struct exports *exports, const char *name);

/*
 * Makes the exports those of a configuration that was read again: opens what is new, removes what
 * is gone, and says what has changed and stays as it was until a restart.  Takes exports away from
 * the configuration.  -EBUSY: another change is under way, and nothing was done; wake() is called
 * when it is over.  Else 0.
 */
int
exports_reload(struct exports *exports, struct server_config *config);

/* Changes for one export; without a name, for the only one there is.  As image_set_direct() and
 * image_resize(); -ENOENT: there is no such export. */
int
exports_set_direct(struct exports *exports, const char *name, bool on, char **error);
int
exports_resize(struct exports *exports, const char *name, char **error);

#endif
