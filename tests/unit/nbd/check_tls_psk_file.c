/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files of keys that both sides of TLS have.
 */
#include "nbd/tls/psk_file.h"

#include "tests/lib/suite.h"
#include "tests/unit/nbd/certificates.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY  "000102030405060708090a0b0c0d0e0f"
#define KEY2 "101112131415161718191a1b1c1d1e1f2021"

static char directory[SCRATCH_PATH], file[SCRATCH_PATH + 16];

static void
make_directory(void)
{
	scratch_directory_new(directory);
	snprintf(file, sizeof(file), "%s/keys.psk", directory);
}

static void
remove_directory(void)
{
	scratch_directory_remove(directory);
}

START_TEST(user_is_found)
{
	static const char text[] =
		"# made by psktool\n\nalice:" KEY "\nbob:" KEY2 " \r\ncarol:" KEY;
	struct psk_file users;
	uint8_t key[TLS_KEY_MAX];
	size_t length;
	char *error;

	certificates_write(directory, "keys.psk", text, sizeof(text) - 1);
	ck_assert_int_eq(psk_file_read(&users, file, &error), 0);
	ck_assert_uint_eq(users.count, 3);
	ck_assert(psk_file_find(&users, (const uint8_t *)"bob", 3, key, &length));
	ck_assert_uint_eq(length, 18);
	ck_assert_mem_eq(key,
			 "\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x20\x21",
			 18);
	ck_assert(psk_file_find(&users, (const uint8_t *)"carol", 5, key, &length));
	ck_assert_uint_eq(length, 16);
	/* Neither a part of a name, nor one with more after a NUL. */
	ck_assert(!psk_file_find(&users, (const uint8_t *)"bo", 2, key, &length));
	ck_assert(!psk_file_find(&users, (const uint8_t *)"bobby", 5, key, &length));
	ck_assert(!psk_file_find(&users, (const uint8_t *)"bob\0", 4, key, &length));
	ck_assert(!psk_file_find(&users, (const uint8_t *)"", 0, key, &length));
	ck_assert_uint_eq(length, 0);
	for (size_t i = 0; i < sizeof(key); i++)
		ck_assert_uint_eq(key[i], 0);
	psk_file_fini(&users);
}
END_TEST

static const struct {
	const char *text, *error;
} wrong[] = {
	{"", ": no user is in this file"},
	{"# nobody\n", ": no user is in this file"},
	{"alice:" KEY "\nsecret\n", ":2: the line is not USER:HEXKEY"},
	{":" KEY "\n", ":1: the name of the user is missing"},
	{"a\tb:" KEY "\n", ":1: the name of the user holds a control character"},
	{"alice:" KEY "0\n", ":1: the key has an odd number of hexadecimal digits"},
	{"alice:0001\n", ":1: the key is shorter than 16 bytes (32 hexadecimal digits)"},
	{"alice:" KEY KEY KEY KEY KEY "\n",
	 ":1: the key is longer than 64 bytes (128 hexadecimal digits)"},
	{"alice:" KEY "zz\n", ":1: the key is not hexadecimal"},
	{"# alice:" KEY "\n#bob:" KEY "\n#61: " KEY "\n#616:" KEY "\nx\n",
	 ":5: the line is not USER:HEXKEY"},
	{"alice:" KEY "\n  #626f62:" KEY2 "\n",
	 ":2: is this a comment, or a user's name in hexadecimal digits?  Put a blank after the # "
	 "of a comment, or write the name itself"},
	{"alice:" KEY "\n\nalice:" KEY2 "\n", ":3: a line before has this user, too"},
};

START_TEST(wrong_key_files_are_explained)
{
	struct psk_file users;
	char text[2 * SCRATCH_PATH], *error;

	certificates_write(directory, "keys.psk", wrong[_i].text, strlen(wrong[_i].text));
	snprintf(text, sizeof(text), "%s%s", file, wrong[_i].error);
	ck_assert_int_eq(psk_file_read(&users, file, &error), -EINVAL);
	ck_assert_str_eq(error, text);
	free(error);
}
END_TEST

/* An editor's mark, and blanks before a line. */
START_TEST(what_editors_add_is_not_of_a_name)
{
	static const char text[] = "\xef\xbb\xbf"
				   "alice:" KEY "\n\t # nobody\n  bob:" KEY2 "\n";
	struct psk_file users;
	char *error;

	certificates_write(directory, "keys.psk", text, sizeof(text) - 1);
	ck_assert_int_eq(psk_file_read(&users, file, &error), 0);
	ck_assert_uint_eq(users.count, 2);
	ck_assert_str_eq(users.users[0].name, "alice");
	ck_assert_str_eq(users.users[1].name, "bob");
	psk_file_fini(&users);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "file", .begin_once = make_directory, .end_once = remove_directory},
		{.test = user_is_found},
		{.test = wrong_key_files_are_explained,
		 .last = (int)(sizeof(wrong) / sizeof(wrong[0]))},
		{.test = what_editors_add_is_not_of_a_name},
		{0},
	};

	return suite_run("tls_psk_file", cases);
}
