/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A fiend: a fiber that connects and sends what no client may: random bytes, options and requests
 * of all sizes that are wrong somewhere, or half of them. It never sends a change that the server
 * may carry out. The server must answer or drop it, and nobody else may notice.
 */
#ifndef TESTS_SIMULATION_FIEND_H
#define TESTS_SIMULATION_FIEND_H

/* Starts it; it works until fiend_stop(). */
void
fiend_start(void);

/* Waits until it has left. */
void
fiend_stop(void);

#endif
