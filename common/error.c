/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/error.h"

#include <stdarg.h>
#include <stdio.h>

int
error_set(char **error, int r, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(error, format, arguments) < 0)
		*error = NULL;
	va_end(arguments);
	return r;
}
