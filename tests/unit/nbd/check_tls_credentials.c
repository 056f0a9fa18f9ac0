/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Credentials: what is read from files, and what is told about files that are of no use.
 */
#include "nbd/tls/credentials.h"
#include "nbd/tls/psk_file.h"

#include "tests/lib/suite.h"
#include "tests/unit/nbd/certificates.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEY  "000102030405060708090a0b0c0d0e0f"
#define KEY2 "101112131415161718191a1b1c1d1e1f2021"

static char directory[SCRATCH_PATH], file[SCRATCH_PATH + 16];
static struct authority authority;

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

static void
begin(void)
{
	char list[SCRATCH_PATH + 32];

	/* Only some tests have one. */
	snprintf(list, sizeof(list), "%s/%s", directory, TLS_CRL_FILE);
	unlink(list);
	authority_init(&authority);
	authority_write(&authority, directory);
	authority_issue(&authority, directory, TLS_SERVER, "server.example.org", -1, 1);
}

static void
end(void)
{
	authority_fini(&authority);
}

static void
lose(const char *name)
{
	char path[SCRATCH_PATH + 32];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	ck_assert_int_eq(unlink(path), 0);
}

/* The files can't be loaded; the sentence is `format` with the directory. */
static void
expect_error(const struct tls_files *files, const char *text)
{
	struct tls_credentials *credentials;
	char expected[2 * SCRATCH_PATH], *error;

	ck_assert_int_lt(tls_credentials_load(files, &credentials, &error), 0);
	ck_assert_ptr_null(credentials);
	snprintf(expected, sizeof(expected), "%s%s", text[0] == '/' ? directory : "", text);
	ck_assert_msg(error && strncmp(error, expected, strlen(expected)) == 0, "%s",
		      error ? error : "no error");
	free(error);
}

static bool
verifies(const struct tls_files *files)
{
	struct tls_credentials *credentials;
	char *error;
	bool verify;
	int r = tls_credentials_load(files, &credentials, &error);

	ck_assert_msg(r == 0, "%s", error ? error : strerror(-r));
	verify = tls_credentials_verify(credentials);
	tls_credentials_unref(credentials);
	return verify;
}

static const struct tls_files server_files = {.side = TLS_SERVER, .certificates = directory};

/* ---- certificates */

START_TEST(server_verifies_if_it_can)
{
	struct tls_files files = server_files;

	ck_assert(verifies(&files));
	files.verify = TLS_VERIFY_OFF;
	ck_assert(!verifies(&files));
	lose(TLS_CA_FILE);
	files.verify = TLS_VERIFY_AUTO;
	ck_assert(!verifies(&files));
	files.verify = TLS_VERIFY_ON;
	expect_error(&files, "/ca-cert.pem: there is no such file; the certificates of clients are "
			     "verified by it");
}
END_TEST

START_TEST(client_needs_the_authority)
{
	struct tls_files files = {.side = TLS_CLIENT, .certificates = directory};

	ck_assert(verifies(&files));
	lose(TLS_CA_FILE);
	expect_error(&files, "/ca-cert.pem: there is no such file; the server's certificate is "
			     "verified by it");
	files.verify = TLS_VERIFY_OFF;
	ck_assert(!verifies(&files));
}
END_TEST

START_TEST(missing_files_are_named)
{
	static const struct tls_files nowhere = {.side = TLS_SERVER, .certificates = "nowhere"};
	static const struct tls_files no_keys = {.side = TLS_SERVER, .psk = "no.psk"};

	expect_error(&nowhere, "nowhere: No such file or directory");
	expect_error(&no_keys, "no.psk: No such file or directory");
	lose(_i ? TLS_SERVER_KEY_FILE : TLS_SERVER_CERT_FILE);
	expect_error(&server_files, _i ? "/server-key.pem: No such file or directory"
				       : "/server-cert.pem: No such file or directory");
}
END_TEST

START_TEST(certificate_of_other_times_is_refused)
{
	authority_issue(&authority, directory, TLS_SERVER, "server.example.org", _i ? -2 : 1,
			_i ? -1 : 2);
	expect_error(&server_files,
		     _i ? "/server-cert.pem: the certificate has expired, on 20"
			: "/server-cert.pem: the certificate is not valid before 20");
}
END_TEST

START_TEST(nonsense_in_files_is_named)
{
	static const char *const names[] = {TLS_CA_FILE, TLS_CRL_FILE, TLS_SERVER_CERT_FILE,
					    TLS_SERVER_KEY_FILE};
	char text[64];

	certificates_write(directory, names[_i], "nonsense\n", 9);
	snprintf(text, sizeof(text), "/%s: ", names[_i]);
	expect_error(&server_files, text);
}
END_TEST

START_TEST(key_of_another_certificate_is_refused)
{
	struct authority other;
	char path[SCRATCH_PATH + 32], kept[SCRATCH_PATH + 32];

	snprintf(path, sizeof(path), "%s/%s", directory, TLS_SERVER_CERT_FILE);
	snprintf(kept, sizeof(kept), "%s/kept.pem", directory);
	ck_assert_int_eq(rename(path, kept), 0);
	authority_init(&other);
	authority_issue(&other, directory, TLS_SERVER, "server.example.org", -1, 1);
	authority_fini(&other);
	ck_assert_int_eq(rename(kept, path), 0);
	expect_error(&server_files,
		     "/server-key.pem: The certificate and the given key do not match.");
}
END_TEST

START_TEST(priority_is_checked)
{
	struct tls_files files = server_files;

	files.priority = "NORMAL:+NONSENSE";
	expect_error(&files, "the TLS priority \"NORMAL:+NONSENSE\" is wrong from \"+NONSENSE");
	files.priority = "SECURE256";
	ck_assert(verifies(&files));
}
END_TEST

/* ---- PSK */

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
	{"alice:" KEY "\n\nalice:" KEY2 "\n", ":3: a line before has this user, too"},
};

START_TEST(wrong_key_files_are_explained)
{
	const struct tls_files files = {.side = TLS_SERVER, .psk = file};
	char text[128];

	certificates_write(directory, "keys.psk", wrong[_i].text, strlen(wrong[_i].text));
	snprintf(text, sizeof(text), "/keys.psk%s", wrong[_i].error);
	expect_error(&files, text);
}
END_TEST

START_TEST(client_chooses_its_user)
{
	struct tls_files files = {.side = TLS_CLIENT, .psk = file, .user = "bob"};
	static const char text[] = "alice:" KEY "\nbob:" KEY2 "\n";

	certificates_write(directory, "keys.psk", text, sizeof(text) - 1);
	verifies(&files);
	files.user = "carol";
	expect_error(&files, "/keys.psk: no user \"carol\" is in this file");
	files.certificates = directory;
	expect_error(&files, "a client proves itself by certificates or by a key, not by both");
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "certificates",
		 .begin_once = make_directory,
		 .end_once = remove_directory},
		{.begin = begin, .end = end},
		{.test = server_verifies_if_it_can},
		{.test = client_needs_the_authority},
		{.test = missing_files_are_named, .last = 2},
		{.test = certificate_of_other_times_is_refused, .last = 2},
		{.test = nonsense_in_files_is_named, .last = 4},
		{.test = key_of_another_certificate_is_refused},
		{.test = priority_is_checked},
		{.test = user_is_found},
		{.test = wrong_key_files_are_explained,
		 .last = (int)(sizeof(wrong) / sizeof(wrong[0]))},
		{.test = client_chooses_its_user},
		{0},
	};

	return suite_run("tls_credentials", cases);
}
