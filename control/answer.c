/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/answer.h"

#include <stddef.h>

void
answer_error(struct json *json, const char *error)
{
	json_object_begin(json, NULL);
	json_string(json, "error", error ? error : "out of memory");
	json_object_end(json);
}
