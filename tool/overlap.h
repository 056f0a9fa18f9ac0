/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which attached device has a part of an image already, for --nooverlap.
 */
#ifndef TOOL_OVERLAP_H
#define TOOL_OVERLAP_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Looks for a device of nbdloop's that has a part of this image in common with `offset` and `sizelimit` (bytes; 0: to the end).
 * *name gets "nbd0" if one has just that part and may be written to or needn't be; NULL if there is none at all.  An error
 * if there is one of another part, or read-only when `read_only` isn't wanted.  Caller frees *name.
 */
bool
overlap_find(const char *image, uint64_t offset, uint64_t sizelimit, bool read_only, char **name, GError **error);

#endif
