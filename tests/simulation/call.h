/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a call of the C library is simulated: CALL(type, NAME, parameters) begins the definition of
 * world_NAME(), and the build renames the product's calls of NAME to that (simulation.mk).
 */
#ifndef TESTS_SIMULATION_CALL_H
#define TESTS_SIMULATION_CALL_H

#include <errno.h>

#define CALL(type, name, ...)                                                                      \
	type world_##name(__VA_ARGS__);                                                            \
	type world_##name(__VA_ARGS__)

/* Returns from a call: the result, or -1 with errno. */
#define CALL_RETURN(r)                                                                             \
	do {                                                                                       \
		const long call_result = (r);                                                      \
                                                                                                   \
		if (call_result < 0)                                                               \
			errno = (int)-call_result;                                                 \
		return call_result < 0 ? -1 : call_result;                                         \
	} while (0)

#endif
