/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The known word that a mistyped one was probably meant to be.
 */
#include "common/near_word.h"

#include "tests/lib/suite.h"

#include <check.h>
#include <stddef.h>
#include <string.h>

/* Too long to be compared. */
#define PART      "thirty-letters-of-a-known-word"
#define LONG_WORD PART PART PART PART PART

static const struct {
	const char *word, *meant; /* NULL: none */
} words[] = {
	{"read-only", "read-only"},
	{"raed-only", "read-only"},
	{"readonly", "read-only"},
	{"read_only", "read-only"},
	{"reed_only", "read-only"},
	{"sread-onlys", "read-only"},
	{"red_only", "read-only"},
	{"r_ed_only", NULL},
	{"lst", "list"},
	{"port", "port"},
	{"por", "port"},
	{"prt", "port"},
	{"prot", "port"},
	{"poqq", NULL},
	{"kort", "port"},
	{"rt", NULL},
	{"p", NULL},
	{"", NULL},
	{"color", NULL},
	{"read-onlyread-onlyread-onlyread-onlyread-only", NULL},
};

START_TEST(mistyped_word_is_known)
{
	static const char *const known[] = {"list", "read-only", "port",
					    "sort", "allow",     LONG_WORD};
	struct near_word near = {.word = words[_i].word};
	char hint[NEAR_WORD_HINT];

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		near_word_offer(&near, known[i]);
	if (words[_i].meant)
		ck_assert_str_eq(near.found, words[_i].meant);
	else
		ck_assert_ptr_null(near.found);
	near_word_hint(&near, hint);
	ck_assert_int_eq(hint[0] != '\0', words[_i].meant != NULL);
}
END_TEST

START_TEST(hint_is_the_end_of_a_sentence)
{
	struct near_word near = {.word = "alow-write"};
	char hint[NEAR_WORD_HINT];

	near_word_offer(&near, "allow");
	near_word_offer(&near, "allow-write");
	ck_assert_str_eq(near_word_hint(&near, hint), "; did you mean allow-write?");
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "near word"},
		{.test = mistyped_word_is_known, .last = sizeof(words) / sizeof(words[0])},
		{.test = hint_is_the_end_of_a_sentence},
		{0},
	};

	return suite_run("near_word", cases);
}
