/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The guard's own time limit for a remote server that answers nothing, where the kernel has none
 * (tool/guard/silence.h): struct source_plan's .silence.
 */
#ifndef TOOL_GUARD_GUARD_SILENCE_H
#define TOOL_GUARD_GUARD_SILENCE_H

#include "tool/guard/guard_state.h"

/* In how many milliseconds to look, if other things can wait for `next_ms` (-1: for ever). */
int
guard_silence_next(const struct guard *guard, int next_ms);

/* Looks.  The connection of a silent server is lost soon afterwards. */
void
guard_silence_look(struct guard *guard);

#endif
