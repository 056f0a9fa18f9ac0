/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What all answers of a control socket have in common.
 */
#ifndef CONTROL_ANSWER_H
#define CONTROL_ANSWER_H

#include "common/json.h"
#include "control/control_request.h"

#include <stddef.h>

/* {"error":"..."}, for a request that failed. NULL: out of memory. */
void
answer_error(struct json *json, const char *error);

/* The handler's answer to a request, as a line of *size bytes; its caller's.  NULL: out of memory.
 */
char *
answer_line(const struct control_request *request, control_handler handler, void *data,
	    size_t *size);

/* The same of answer_error(). */
char *
answer_error_line(const char *error, size_t *size);

#endif
