/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The operator: a fiber that asks the server's control socket for changes, of all kinds, while
 * clients work. What it asks for may fail; but each request is answered, or its connection ends.
 */
#ifndef TESTS_SIMULATION_OPERATOR_H
#define TESTS_SIMULATION_OPERATOR_H

/* The address of the control socket. */
void
operator_plan_control(const char *address);

/* Starts it; it works until operator_stop(). */
void
operator_start(void);

/* Waits until it has left. */
void
operator_stop(void);

#endif
