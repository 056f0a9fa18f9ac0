/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Looks at the images of exports: at one that a client wants to choose, and at all when the
 * configuration was read again. A file that has another size gets a new offer.
 *
 * A thread looks. While a file system lets it wait, clients do not: they are told what was known
 * before. Nor does the next reading of the configuration.
 */
#ifndef SERVER_EXPORTS_EXPORT_LOOK_H
#define SERVER_EXPORTS_EXPORT_LOOK_H

#include <stdbool.h>

struct exports;
struct look;

/* From now on, a client that chooses an export is told the size that its image has then. To be
 * called once, before clients connect. 0 or -errno. */
int
exports_start_looking(struct exports *exports);

/* Ends the thread that looks for clients; no look is under way. */
void
exports_stop_looking(struct exports *exports);

/* The configuration was read again: has all images looked at, soon. The log tells what is found. */
void
exports_look_at_all(struct exports *exports);

/* After wake(): whether that has found images that exports_reload() is to open again. */
bool
exports_want_reload(struct exports *exports);

/* Returns whether a look is under way; it may wait for a file system that does not answer. */
bool
exports_are_looking(struct exports *exports);

/* Looks at an image, on another thread, and then posts the look's message. 0; or -EBUSY: nobody
 * looks now. */
int
exports_look(struct exports *exports, struct look *look);

#endif
