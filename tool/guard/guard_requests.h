/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The requests of the other verbs to a guard (tool/guard/guard_link.h), carried out.
 */
#ifndef TOOL_GUARD_GUARD_REQUESTS_H
#define TOOL_GUARD_GUARD_REQUESTS_H

#include "tool/guard/guard_state.h"

/* Carries out a request, if one has come.  There may be no server after it: upstream.server.pid is
 * 0 then. */
void
guard_requests_take(struct guard *guard);

#endif
