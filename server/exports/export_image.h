/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The images of exports: opened, locked among exports of the same file, with their records of
 * checkpoints, and with the size that they have now. New clients are offered an image as it is
 * then.
 */
#ifndef SERVER_EXPORTS_EXPORT_IMAGE_H
#define SERVER_EXPORTS_EXPORT_IMAGE_H

#include <stdbool.h>

struct export;
struct export_config;
struct exports;

/* changing held. As exports_add(), for a name that is free. */
int
exports_open(struct exports *exports, struct export_config *config, char **error);

/* changing held. Opens and locks the image of an export that is not offered yet, and the record of
 * its checkpoints. 0, or -errno with *error a sentence (caller frees). */
int
export_open(struct exports *exports, struct export *export, char **error);

/* changing held. Adopts the size that the export's image has now, logs that, and offers it to new
 * clients. `shrunk`: it was smaller meanwhile. 0, or -ENOMEM: it is not offered. */
int
export_adopt_size(struct exports *exports, struct export *export, bool shrunk);

/* Follows, from now on, the sizes that others give the export's image. */
void
exports_follow_size(struct export *export);

/* As image_set_direct() and image_resize(), for the image of one export; without a name, of the
 * only export. -ENOENT: there is no such export. */
int
exports_set_direct(struct exports *exports, const char *name, bool on, char **error);
int
exports_resize(struct exports *exports, const char *name, char **error);

#endif
