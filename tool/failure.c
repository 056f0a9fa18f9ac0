/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/failure.h"

#include <stdarg.h>

GQuark
failure_quark(void)
{
	return g_quark_from_static_string("nbdloop-failure");
}

bool
failure(GError **error, int err, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	if (error && !*error)
		*error = g_error_new_valist(FAILURE, err, format, arguments);
	va_end(arguments);
	return false;
}

bool
failure_errno(GError **error, int err, const char *format, ...)
{
	g_autofree char *text = NULL;
	va_list arguments;

	va_start(arguments, format);
	text = g_strdup_vprintf(format, arguments);
	va_end(arguments);
	return failure(error, err, "%s: %s", text, g_strerror(err));
}

bool
failure_pass(GError **error, GError **why)
{
	g_propagate_error(error, g_steal_pointer(why));
	return false;
}

bool
failure_is(const GError *error, int err)
{
	return g_error_matches(error, FAILURE, err);
}
