/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What limits promise: in no window of time does the server carry out more operations, or bytes,
 * than a burst and what the rate allows for that time, from the answer on that confirms the limit.
 * There are limits for all clients of the image together, and for each client by itself.
 */
#ifndef TESTS_SIMULATION_LIMIT_MODEL_H
#define TESTS_SIMULATION_LIMIT_MODEL_H

#include <stdbool.h>
#include <stdint.h>

/* The numbers of clients are from 1 to this one. */
#define LIMIT_MODEL_CLIENTS 3

/* The most bytes of a request in this run. */
void
limit_model_plan(uint64_t largest);

/* A server starts, which has no limits; or it may drop those that it was told (`lasting`: false),
 * as a reload of its configuration does, and the end of the server. */
void
limit_model_begin(bool lasting);

/* A request to set limits is on its way, such as "set iops-limit=500 client-bandwidth-limit=1M":
 * nobody knows those that it names. */
void
limit_model_asked(const char *request);

/* The server has confirmed them. */
void
limit_model_confirmed(const char *request);

/* An operation of that client that was sent at that time has been answered well; `bytes` that a
 * limit counts. */
void
limit_model_answered(unsigned int client, uint64_t bytes, int64_t sent_at);

#endif
