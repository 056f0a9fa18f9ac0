/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Answers of the control socket: lines of JSON.
 */
#ifndef CONTROL_ANSWER_H
#define CONTROL_ANSWER_H

#include "common/json.h"
#include "control/control_request.h"

#include <stddef.h>

/* Writes {"error":"..."}, the answer to a request that failed. `error` may be NULL: out of memory.
 */
void
answer_error(struct json *json, const char *error);

/* Writes the answer to a request for an export that does not exist. `name` is the name in the
 * request, or NULL. `or_why` gives another possible reason, such as ", or ...", or is "". */
void
answer_no_export(struct json *json, const char *name, const char *or_why);

/* Returns the handler's answer to a request, a line of *size bytes that the caller frees. NULL: out
 * of memory. */
char *
answer_line(const struct control_request *request, control_handler handler, void *data,
	    size_t *size);

/* The same for the answer of answer_error(). */
char *
answer_error_line(const char *error, size_t *size);

#endif
