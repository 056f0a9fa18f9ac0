/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all answers of a control socket have in common.
 */
#ifndef CONTROL_ANSWER_H
#define CONTROL_ANSWER_H

#include "common/json.h"

/* {"error":"..."}, for a request that failed. NULL: out of memory. */
void
answer_error(struct json *json, const char *error);

#endif
