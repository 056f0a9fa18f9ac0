/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The plan of a device, made of the options of `nbdloop attach'.
 */
#ifndef TOOL_ATTACH_ATTACH_PLAN_H
#define TOOL_ATTACH_ATTACH_PLAN_H

#include "tool/attach/attach_options.h"

/* `place` (an absolute path, an image in Ceph, or a URI) is taken over: guard_plan_fini() frees it
 * after an error, too.  It is an error if an option has no meaning for `place`. */
bool
attach_options_plan(const struct attach_options *options, char *place, bool remote,
		    struct guard_plan *plan, GError **error);

/* Only whether they have a meaning for `place`, which may be relative. */
bool
attach_options_check(const struct attach_options *options, const char *place, GError **error);

#endif
