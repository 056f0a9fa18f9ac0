/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes of exports while clients are connected, by the control socket or by a configuration that
 * was read again. One runs after another, on the thread that asks for it.
 */
#ifndef SERVER_EXPORTS_EXPORT_CHANGES_H
#define SERVER_EXPORTS_EXPORT_CHANGES_H

#include <stdint.h>

struct export_config;
struct exports;
struct server_config;

/* Opens an export, and logs how its image is reached. Takes over the configuration, which is in no
 * list. Returns 0, or -errno with *error a sentence (caller frees). */
int
exports_add(struct exports *exports, struct export_config *config, char **error);

/* Offers the export no longer; its connections stay. 0 or -ENOENT. */
int
exports_remove(struct exports *exports, const char *name);

/* Changes the rules about who may use an export (server/access/access.h), for clients that choose
 * it from now on; without a name, of the only export. NULL: that option stays as it is; for
 * `proofs`, see access_new(). Returns 0; -ENOENT: there is no such export; or -errno with *error a
 * sentence (caller frees). */
int
exports_set_access(struct exports *exports, const char *name, const char *allow,
		   const char *allow_write, unsigned int proofs, char **error);

/* Begins or ends a checkpoint of that name (engine/changes/checkpoint.h) of one export; without
 * `export`, of all exports, at one moment. `granule`: in bytes. Returns 0; -ENOENT without
 * *error: there is no such export; or -errno with *error a sentence (caller frees), and nothing has
 * changed. */
int
exports_begin_checkpoint(struct exports *exports, const char *export, const char *name,
			 uint64_t granule, char **error);
int
exports_end_checkpoint(struct exports *exports, const char *export, const char *name, char **error);

/* How many exports a configuration that was read again has ... */
struct reload_summary {
	unsigned int added, changed, removed;
	unsigned int reopened;
	unsigned int failed; /* the log has said why */
	char *error;         /* why the first one could not be opened, or NULL; caller frees */
};

/*
 * Follows a configuration that was read again: opens new exports, removes those that are missing,
 * changes the rules about who may use them, and logs which options have changed but need a restart.
 * Takes exports out of the configuration.
 */
struct reload_summary
exports_reload(struct exports *exports, struct server_config *config);

#endif
