/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attach --swap: whether this machine and the image suit swap space that this machine serves
 * itself.
 */
#ifndef TOOL_VERB_SWAP_SPACE_H
#define TOOL_VERB_SWAP_SPACE_H

#include "tool/attach/attach_options.h"

#include <glib.h>
#include <stdbool.h>

/*
 * Without --swap, does nothing.  Otherwise looks at the kernel's reserve of memory, which --swap=
 * raise raises if it is too small.  For an image (`place` is its path), a reserve that is too small
 * is an error, or a warning with --force, and parts that were never written are a warning.
 */
bool
swap_space_prepare(const struct attach_options *options, const char *place, bool remote,
		   GError **error);

#endif
