/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The options of `nbdloop attach' that are for one kind of images alone, as
 * engine/backing/image_kind.h tells.
 */
#ifndef TOOL_ATTACH_ATTACH_KIND_H
#define TOOL_ATTACH_ATTACH_KIND_H

#include "tool/attach/attach_options.h"

/* Whether the options suit the kind of `place`, an image or a URI. */
bool
attach_kind_check(const struct attach_options *options, const char *place, GError **error);

/* Adds them to a server's, in nbdloopd's form. Paths become absolute; what an environment variable
 * says is added, too, because the environment of the next server may be another one. */
void
attach_kind_add(const struct attach_options *options, const char *place, GPtrArray *words);

#endif
