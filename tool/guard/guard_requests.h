/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the other verbs ask a guard to do (tool/guard/guard_link.h).
 */
#ifndef TOOL_GUARD_GUARD_REQUESTS_H
#define TOOL_GUARD_GUARD_REQUESTS_H

#include "tool/guard/guard_state.h"

/* Carries out a request, if one has come.  There may be no server after it: upstream.server.pid is
 * 0 then. */
void
guard_take_request(struct guard *guard);

#endif
