/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The source that is an image: a server process of our own, and its connections.  Its servers come
 * one after the other, always for the same image, even if that was renamed or removed.
 */
#ifndef TOOL_SOURCE_IMAGE_SOURCE_H
#define TOOL_SOURCE_IMAGE_SOURCE_H

#include "tool/source/source_state.h"

extern const struct source_kind image_source_kind;

/* In the place of a guard that was killed, with a server of that process ID (0: it is gone): finds
 * the file, which may have been renamed or removed, and asks the server what its guard would know.
 */
bool
image_source_adopt(struct source *source, pid_t server, const struct image_identity *identity,
		   GError **error);

/* Swaps the images, from the next servers on; `source` becomes read-only. */
void
image_source_swap(struct source *source, struct source *other);

#endif
