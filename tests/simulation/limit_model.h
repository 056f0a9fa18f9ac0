/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a limit of operations promises: in no window of time does the server carry out more of them
 * than a burst and what the rate allows for that time, from the answer on that confirms the limit.
 */
#ifndef TESTS_SIMULATION_LIMIT_MODEL_H
#define TESTS_SIMULATION_LIMIT_MODEL_H

#include <stdbool.h>
#include <stdint.h>

/* A server starts, which has no limits; or it may drop those that it was told (`lasting`: false),
 * as a reload of its configuration does, and the end of the server. */
void
limit_model_begin(bool lasting);

/* The server has confirmed this rate, per second; 0: there is no limit, or nobody knows. */
void
limit_model_set(uint64_t rate);

/* An operation that was sent at that time has been answered well. */
void
limit_model_answered(int64_t sent_at);

#endif
