/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attaches an image or an export, as `nbdloop attach' does.
 */
#ifndef TOOL_VERB_ATTACH_H
#define TOOL_VERB_ATTACH_H

#include "tool/attach/attach_options.h"

#include <stdbool.h>

/*
 * Attaches `image` (a path or an NBD URI) to `device` ("nbd0"; NULL: a free one).  Prints the name
 * of the device if `device` is NULL or the options ask for it.  False: nothing is left behind, and
 * *error is set.
 */
bool
attach_image(const struct attach_options *options, const char *image, const char *device,
	     GError **error);

#endif
