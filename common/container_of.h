/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finding a structure from a member that it embeds.
 */
#ifndef COMMON_CONTAINER_OF_H
#define COMMON_CONTAINER_OF_H

#include <stddef.h>
#include <stdint.h>

/* The structure of this type whose member `pointer` points at; the compiler checks the member's
 * type. A pointer to const may be given if the structure itself is not const. */
#define container_of(pointer, type, member)                                                        \
	((type *)((uintptr_t)(1 ? (pointer) : &((type *)NULL)->member) - offsetof(type, member)))

#endif
