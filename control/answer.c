/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/answer.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

void
answer_error(struct json *json, const char *error)
{
	json_object_begin(json, NULL);
	json_string(json, "error", error ? error : "out of memory");
	json_object_end(json);
}

static void
write_error(const struct control_request *request, FILE *out, void *data)
{
	struct json json;

	(void)request;
	json_init(&json, out);
	answer_error(&json, data);
}

char *
answer_line(const struct control_request *request, control_handler handler, void *data,
	    size_t *size)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, size);
	bool failed;

	if (!out)
		return NULL;
	handler(request, out, data);
	fputc('\n', out);
	failed = ferror(out);
	if (fclose(out) == 0 && !failed)
		return text;
	free(text);
	return NULL;
}

char *
answer_error_line(const char *error, size_t *size)
{
	return answer_line(NULL, write_error, (char *)(uintptr_t)error, size);
}
