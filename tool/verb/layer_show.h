/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The output of nbdloop layer info and check.
 */
#ifndef TOOL_VERB_LAYER_SHOW_H
#define TOOL_VERB_LAYER_SHOW_H

#include "engine/layer/layer_report.h"

#include <stdbool.h>
#include <stddef.h>

/* Prints the files of the chain, and what was found. */
void
layer_show_info(const struct layer_report *report, bool json);

/* Prints only what was found. */
void
layer_show_check(const struct layer_report *report, bool json);

/* Returns how many findings are of this kind. */
size_t
layer_show_count(const struct layer_report *report, enum layer_trouble trouble);

#endif
