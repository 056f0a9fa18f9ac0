/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The streams of the C library that the product uses: of memory, and of files, which are read as a
 * whole. What goes to stderr becomes part of the trace.
 */
#ifndef TESTS_SIMULATION_STDIO_H
#define TESTS_SIMULATION_STDIO_H

#include <stdbool.h>

struct process;

/* Closes those that a process has left; `well`: fails if there are some. */
void
stream_files_close(struct process *process, bool well);

#endif
