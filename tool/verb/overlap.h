/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds a device that is attached to a part of an image already, for --nooverlap.
 */
#ifndef TOOL_VERB_OVERLAP_H
#define TOOL_VERB_OVERLAP_H

#include "tool/attach/attach_options.h"

#include <glib.h>
#include <stdbool.h>

/*
 * Looks for a device of nbdloop's that has a part of this image in common with the offset and
 * sizelimit of `wanted`.  *name gets "nbd0" if a device has just that part, and may be written to
 * or need not be; NULL if there is none.  An error if a device has another part, or is read-only
 * when that isn't wanted; or if a loop device has a part, and one of both may be written to. Caller
 * frees *name.
 *
 * `name` NULL, for an image that turned out to be locked: an error that names the device of
 * nbdloop's that has a part in common, if one of both may be written to.
 */
bool
overlap_find(const char *image, const struct attach_options *wanted, char **name, GError **error);

#endif
