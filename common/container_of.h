/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Finds a structure from the address of one of its members.
 */
#ifndef COMMON_CONTAINER_OF_H
#define COMMON_CONTAINER_OF_H

#include <stddef.h>
#include <stdint.h>

/* Returns the structure of this type whose member `pointer` points to. The compiler checks the
 * member's type. `pointer` may be a pointer to const if the structure itself is not const. */
#define container_of(pointer, type, member)                                                        \
	((type *)((uintptr_t)(1 ? (pointer) : &((type *)NULL)->member) - offsetof(type, member)))

#endif
