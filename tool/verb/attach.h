/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Attaching an image or an export, as `nbdloop attach' does it.
 */
#ifndef TOOL_VERB_ATTACH_H
#define TOOL_VERB_ATTACH_H

#include "tool/table/attach_options.h"

#include <stdbool.h>

/*
 * Attaches `image` (a path or an NBD URI) to `device` ("nbd0"; NULL: one that is free), and prints
 * the device's name where the options, or a free device, ask for it.  False: nothing is left, and
 * *error is set.
 */
bool
attach_image(const struct attach_options *options, const char *image, const char *device,
	     GError **error);

#endif
