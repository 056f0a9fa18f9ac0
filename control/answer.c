/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/answer.h"

#include "common/cleanup.h"
#include "common/error.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>

void
answer_error(struct json *json, const char *error)
{
	json_object_begin(json, NULL);
	json_put_string(json, "error", error ? error : "out of memory");
	json_object_end(json);
}

void
answer_no_export(struct json *json, const char *name, const char *or_why)
{
	char *CLEANUP_FREE error = NULL;

	if (!name) {
		answer_error(json, "which export? add export=NAME, with a name from the status");
		return;
	}
	error_set(&error, -ENOENT, "export=%s: there is no such export%s; status shows the exports",
		  name, or_why);
	answer_error(json, error);
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

	if (!out)
		return NULL;
	handler(request, out, data);
	fputc('\n', out);
	json_text_close(out, &text, size);
	return text;
}

char *
answer_error_line(const char *error, size_t *size)
{
	return answer_line(NULL, write_error, (char *)(uintptr_t)error, size);
}
