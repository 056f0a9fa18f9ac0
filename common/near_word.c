/* SPDX-License-Identifier: BSD-3-Clause */
#include "common/near_word.h"

#include <stdio.h>
#include <string.h>

#define DISTANCE_MAX 2

static unsigned int
word_smaller(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

/* How many single characters have to be added, removed, replaced, or swapped with their neighbour.
 * Both words are at most NEAR_WORD_MAX long. */
static unsigned int
word_distance(const char *a, const char *b)
{
	/* Three rows of the table: [0] is that of a[i], and the others come before. */
	unsigned int rows[3][NEAR_WORD_MAX + 1] = {{0}};
	const size_t length = strlen(b);

	for (size_t j = 0; j <= length; j++)
		rows[0][j] = (unsigned int)j;
	for (size_t i = 1; i <= strlen(a); i++) {
		memmove(rows[1], rows[0], 2 * sizeof(rows[0]));
		rows[0][0] = (unsigned int)i;
		for (size_t j = 1; j <= length; j++) {
			unsigned int best = rows[1][j - 1] + (a[i - 1] != b[j - 1]);

			best = word_smaller(best, word_smaller(rows[1][j], rows[0][j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				best = word_smaller(best, rows[2][j - 2] + 1);
			rows[0][j] = best;
		}
	}
	return rows[0][length];
}

void
near_word_offer(struct near_word *near, const char *known)
{
	unsigned int distance;

	if (strlen(near->word) > NEAR_WORD_MAX || strlen(known) > NEAR_WORD_MAX)
		return;
	distance = word_distance(near->word, known);
	/* Most of a short word must be right. */
	if (distance > DISTANCE_MAX || 2 * distance >= strlen(near->word) ||
	    (near->found && distance >= near->distance))
		return;
	near->found = known;
	near->distance = distance;
}

const char *
near_word_hint(const struct near_word *near, char hint[NEAR_WORD_HINT])
{
	hint[0] = '\0';
	if (near->found)
		snprintf(hint, NEAR_WORD_HINT, "; did you mean %s?", near->found);
	return hint;
}
