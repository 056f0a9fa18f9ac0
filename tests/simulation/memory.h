/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of a process: a list of blocks, all of which are freed when it is killed, and none of
 * which is left when it ends well. New memory is filled with a byte, and freed memory with another
 * one.
 */
#ifndef TESTS_SIMULATION_MEMORY_H
#define TESTS_SIMULATION_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

struct process;

/* The server's own calls get none, once in so many; 0: never. */
extern unsigned int memory_scarcity;

/* For calls of the C library that return memory to be freed. */
void *
memory_take(size_t size);
/* As free(). */
void
memory_give(void *block);
void *
memory_resize(void *block, size_t size);

/* Frees all; `well`: fails if there is anything. */
void
memory_drop(struct process *process, bool well);

#endif
