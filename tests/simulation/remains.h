/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a process leaves when it is over: nothing, if it ended well.
 */
#ifndef TESTS_SIMULATION_REMAINS_H
#define TESTS_SIMULATION_REMAINS_H

struct process;

/* Fails if one that ended well has left memory, descriptors or streams; drops and frees all. */
void
remains_drop(struct process *process);

#endif
