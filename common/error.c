/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *_Atomic of_denials;

void
error_explain_denials(const char *addition)
{
	atomic_store(&of_denials, addition);
}

/* A sentence that ends otherwise knows its reason better. */
static bool
is_bare_denial(const char *sentence)
{
	const char *reason = strerror(EACCES);
	size_t length = strlen(sentence), end = strlen(reason);

	return length >= end && strcmp(sentence + length - end, reason) == 0;
}

static void
denial_explain(char **error, const char *addition)
{
	char *longer;

	if (!addition || !is_bare_denial(*error) || asprintf(&longer, "%s%s", *error, addition) < 0)
		return;
	free(*error);
	*error = longer;
}

int
error_set(char **error, int r, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(error, format, arguments) < 0)
		*error = NULL;
	va_end(arguments);
	if (r == -EACCES && *error)
		denial_explain(error, atomic_load(&of_denials));
	return r;
}
