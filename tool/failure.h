/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How functions of the tool fail: with a GError of this domain, whose code is an errno and whose
 * message is a whole sentence that names the thing.
 */
#ifndef TOOL_FAILURE_H
#define TOOL_FAILURE_H

#include <glib.h>
#include <stdbool.h>

#define FAILURE (failure_quark())

GQuark
failure_quark(void);

/* Sets *error (which may be NULL) to `err`, an errno, and the text.  Returns false, for `return
 * failure(...)`. */
bool
failure(GError **error, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same, and the text gets ": " and what the errno means. */
bool
failure_errno(GError **error, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Hands *why to the caller, as g_propagate_error() does, and leaves NULL; returns false. */
bool
failure_pass(GError **error, GError **why);

/* failure() as an expression that is NULL. */
#define FAILURE_NULL(...) (failure(__VA_ARGS__), NULL)

/* Whether the error is of this domain and has that errno. */
bool
failure_is(const GError *error, int err);

#endif
