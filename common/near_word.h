/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The known word that a mistyped one was probably meant to be.
 *
 *	struct near_word near = {.word = "raed-only"};
 *
 *	near_word_offer(&near, "read-only");
 *	near_word_hint(&near, hint);	// "; did you mean read-only?"
 */
#ifndef COMMON_NEAR_WORD_H
#define COMMON_NEAR_WORD_H

#include <stdbool.h>

/* The longest known word, and room for the hint. */
#define NEAR_WORD_MAX  40
#define NEAR_WORD_HINT 64

struct near_word {
	const char *word;
	const char *found; /* the nearest of the known ones; NULL: none is near */
	unsigned int distance;
};

/* At most two characters may be missing, added, replaced or swapped, and fewer in a short word.
 * `known` is not copied. */
void
near_word_offer(struct near_word *near, const char *known);

/* Returns `hint`: the end of an error's sentence, or nothing. */
const char *
near_word_hint(const struct near_word *near, char hint[NEAR_WORD_HINT]);

#endif
