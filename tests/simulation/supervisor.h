/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The supervisor: the first fiber of a run. It prepares the disk, starts clients and the server,
 * kills and restarts the server and the machine at moments of chance, and looks at the disk
 * whenever nobody changes it.
 */
#ifndef TESTS_SIMULATION_SUPERVISOR_H
#define TESTS_SIMULATION_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>

/* Lives of servers that ended without a warning, and all virtual time, in all runs. */
extern uint64_t supervisor_kills, supervisor_crashes, supervisor_ends;

/* Whether the next run's image is a layer. */
extern bool supervisor_has_layer;

/* To be given to scheduler_run(). */
void
supervisor_run(void);

#endif
