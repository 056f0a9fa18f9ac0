/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The places of a table that the kernel keeps for a ring (registered files, registered memory):
 * which of them are free. Knows nothing of what is in them.
 */
#ifndef ENGINE_BACKEND_PLACES_H
#define ENGINE_BACKEND_PLACES_H

#include <stdbool.h>

struct places {
	bool *taken;             /* one for each place; the owner of the structure frees it */
	unsigned int count;      /* 0: there is no table */
	unsigned int first_free; /* all places before this one are taken */
};

/* Makes `count` places, all free. Returns 0 or -ENOMEM. */
int
places_init(struct places *places, unsigned int count);

/* Frees what places_init() made; a structure of zeroes is allowed. */
void
places_fini(struct places *places);

/* Takes `run` (1 or more) places in a row. Returns the number of the first, or -1 if there is no
 * such run. */
int
places_take(struct places *places, unsigned int run);

/* Gives places back that places_take() has returned. */
void
places_give(struct places *places, int first, unsigned int run);

#endif
