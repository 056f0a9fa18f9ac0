/* SPDX-License-Identifier: BSD-3-Clause */
#include "engine/backend/places.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int
places_init(struct places *places, unsigned int count)
{
	*places = (struct places){.taken = calloc(count, sizeof(bool)), .count = count};
	if (places->taken)
		return 0;
	places->count = 0;
	return -ENOMEM;
}

void
places_fini(struct places *places)
{
	free(places->taken);
	*places = (struct places){0};
}

int
places_take(struct places *places, unsigned int run)
{
	unsigned int free_run = 0;

	for (unsigned int at = places->first_free; at < places->count; at++) {
		unsigned int first;

		free_run = places->taken[at] ? 0 : free_run + 1;
		if (free_run < run)
			continue;
		first = at + 1 - run;
		memset(places->taken + first, true, run);
		while (places->first_free < places->count && places->taken[places->first_free])
			places->first_free++;
		return (int)first;
	}
	return -1;
}

void
places_give(struct places *places, int first, unsigned int run)
{
	unsigned int at = (unsigned int)first;

	assert(first >= 0 && at + run <= places->count && places->taken[at]);
	memset(places->taken + at, false, run);
	if (at < places->first_free)
		places->first_free = at;
}
