/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which attached device has a part of an image already, for --nooverlap.
 */
#ifndef TOOL_VERB_OVERLAP_H
#define TOOL_VERB_OVERLAP_H

#include "tool/table/attach_options.h"

#include <glib.h>
#include <stdbool.h>

/*
 * Looks for a device of nbdloop's that has a part of this image in common with the offset and
 * sizelimit of `wanted`. *name gets "nbd0" if one has just that part and may be written to or
 * needn't be; NULL if there is none at all.  An error if there is one of another part, or read-only
 * when that isn't wanted; or a loop device, and one of both may be written to.  Caller frees *name.
 */
bool
overlap_find(const char *image, const struct attach_options *wanted, char **name, GError **error);

/*
 * An error that names the device of nbdloop's which has a part in common that one of both may write
 * to; false if there is one. For an image that turned out to be locked.
 */
bool
overlap_explain(const char *image, const struct attach_options *wanted, GError **error);

#endif
