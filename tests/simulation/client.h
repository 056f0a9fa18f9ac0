/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client: a fiber that connects, sends requests of all kinds, several at once, checks the
 * answers, leaves in all manners, and connects again.
 */
#ifndef TESTS_SIMULATION_CLIENT_H
#define TESTS_SIMULATION_CLIENT_H

#include "tests/simulation/client_plan.h"

#include <stdint.h>

/* How many answers clients have had, of all kinds, in all runs. */
extern uint64_t client_answers;

/* Starts a client; it runs until clients_stop(). */
void
client_start(unsigned int number);

/* Waits until all have left. */
void
clients_stop(void);

#endif
