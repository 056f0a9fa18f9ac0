/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How functions of the tool fail: with a GError of this domain, whose code is an errno and whose
 * message is a whole sentence that names the thing.  And g_auto for a descriptor.
 */
#ifndef TOOL_FAILURE_H
#define TOOL_FAILURE_H

#include <glib.h>
#include <stdbool.h>

#define FAILURE (failure_quark())

GQuark
failure_quark(void);

/* Sets *error (which may be NULL) to the errno `err` and the text; returns false, for `return
 * failure(...)`. */
bool
failure(GError **error, int err, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same as an expression that is NULL. */
#define FAILURE_NULL(...) (failure(__VA_ARGS__), NULL)

/* Whether it is of this domain and has that errno. */
bool
failure_is(const GError *error, int err);

#endif
