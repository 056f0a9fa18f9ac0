/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Credentials: what is read from files, and what is told about files that are of no use.
 */
#include "nbd/tls/credentials.h"

#include "tests/lib/suite.h"
#include "tests/unit/log_capture.h"
#include "tests/unit/nbd/certificates.h"
#include "tests/unit/scratch_file.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define KEY  "000102030405060708090a0b0c0d0e0f"
#define KEY2 "101112131415161718191a1b1c1d1e1f"

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
	log_capture_begin();
	authority_init(&authority);
	authority_write(&authority, directory);
	authority_issue(&authority, directory, TLS_SERVER, "server.example.org", -1, 1);
}

static void
end(void)
{
	authority_fini(&authority);
	log_capture_end();
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
	expect_error(&files, "/ca-cert.pem: there is no such file; it is needed to verify the "
			     "certificates of clients");
}
END_TEST

START_TEST(client_needs_the_authority)
{
	struct tls_files files = {.side = TLS_CLIENT, .certificates = directory};

	ck_assert(verifies(&files));
	lose(TLS_CA_FILE);
	expect_error(&files, "/ca-cert.pem: there is no such file; it is needed to verify the "
			     "server's certificate");
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

START_TEST(key_with_a_password_is_refused)
{
	certificates_write_secret_key(directory, TLS_SERVER_KEY_FILE, _i);
	expect_error(&server_files, "/server-key.pem: the key has a password, and nobody can be "
				    "asked for it: certtool -k --infile ");
}
END_TEST

/* ---- lists of revoked certificates */

/* GnuTLS takes it, and looks into it for no certificate of ours. */
START_TEST(list_of_another_authority_is_refused)
{
	struct tls_files files = {.side = _i % 2 ? TLS_CLIENT : TLS_SERVER,
				  .certificates = directory};
	struct authority other;

	authority_init_named(&other, _i < 2 ? "Another" : "An authority", -30, 30);
	authority_revoke(&other, directory, 2, -1, 1);
	authority_fini(&other);
	expect_error(&files,
		     _i < 2 ? "/ca-crl.pem: the list of revoked certificates is of \"CN=Another\", "
			      "of which no certificate is in ca-cert.pem"
			    : "/ca-crl.pem: the list of revoked certificates is of \"CN=An "
			      "authority\", but the key of the certificate in ca-cert.pem has not "
			      "signed it");
}
END_TEST

START_TEST(list_needs_its_authority)
{
	struct tls_files files = server_files;

	authority_revoke(&authority, directory, 2, -1, 1);
	ck_assert(verifies(&files));
	lose(TLS_CA_FILE);
	expect_error(&files, "/ca-cert.pem: there is no such file; without it no certificate of a "
			     "client is verified, and those that ca-crl.pem revokes are taken");
	files.verify = TLS_VERIFY_OFF;
	ck_assert(!verifies(&files));
}
END_TEST

/* Two may have the same name: an old one, and the one that took its place. */
START_TEST(list_is_of_one_of_several_authorities)
{
	struct authority other;
	char both[8192], path[SCRATCH_PATH + 32];
	size_t length = 0;

	authority_init(&other);
	snprintf(path, sizeof(path), "%s/%s", directory, TLS_CA_FILE);
	for (int i = 0; i < 2; i++) {
		FILE *pem;

		authority_write(i ? &authority : &other, directory);
		pem = fopen(path, "r");
		ck_assert_ptr_nonnull(pem);
		length += fread(both + length, 1, sizeof(both) - length, pem);
		fclose(pem);
	}
	certificates_write(directory, TLS_CA_FILE, both, length);
	authority_revoke(_i ? &authority : &other, directory, 2, -1, 1);
	authority_fini(&other);
	ck_assert(verifies(&server_files));
}
END_TEST

/* ---- warnings */

/* Loads the files, and logs their warnings.  Returns when to look again. */
static time_t
warn(const struct tls_files *files, time_t since, time_t now)
{
	struct tls_credentials *credentials;
	char *error;
	time_t next;

	ck_assert_int_eq(tls_credentials_load(files, &credentials, &error), 0);
	next = tls_credentials_warn(credentials, since, now);
	tls_credentials_unref(credentials);
	return next;
}

START_TEST(list_of_other_times_is_warned_about)
{
	time_t now = time(NULL);

	authority_revoke(&authority, directory, 2, _i ? -2 : 1, _i ? -1 : 2);
	warn(&server_files, 0, now);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 1);
	ck_assert(log_capture_has(
		LOG_LEVEL_WARNING,
		_i ? "/ca-crl.pem: the list of revoked certificates has expired, on 20"
		   : "/ca-crl.pem: the list of revoked certificates is not valid before 20"));
	ck_assert(log_capture_has(LOG_LEVEL_WARNING,
				  ": it is used, but may lack certificates that were revoked"));
}
END_TEST

START_TEST(authority_of_other_times_is_warned_about)
{
	authority_fini(&authority);
	authority_init_named(&authority, "An authority", _i ? -3 : 1, _i ? -1 : 3);
	authority_write(&authority, directory);
	warn(&server_files, 0, time(NULL));
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 1);
	ck_assert(log_capture_has(LOG_LEVEL_WARNING,
				  _i ? "/ca-cert.pem: the certificate of the authority \"CN=An "
				       "authority\" has expired, on 20"
				     : "/ca-cert.pem: the certificate of the authority \"CN=An "
				       "authority\" is not valid before 20"));
}
END_TEST

/* The certificate ends in one day, the list in two, and the authority's certificate in thirty. */
START_TEST(each_end_is_warned_about_once)
{
	time_t now = time(NULL), next;

	authority_revoke(&authority, directory, 2, -1, 2);
	next = warn(&server_files, 0, now);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 0);
	ck_assert(next > now + 86400 - 60 && next <= now + 86400 + 60);
	now = next;
	next = warn(&server_files, now - 1, now);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 1);
	ck_assert(log_capture_has(LOG_LEVEL_WARNING,
				  "/server-cert.pem: the certificate has expired"));
	ck_assert_int_eq(warn(&server_files, now, now + 1), next);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 1);
	next = warn(&server_files, now, next);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 2);
	ck_assert(log_capture_has(LOG_LEVEL_WARNING, "/ca-crl.pem: the list of revoked"));
	ck_assert_int_eq(warn(&server_files, next - 1, next), 0);
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 3);
}
END_TEST

START_TEST(list_without_an_end_has_none)
{
	authority_revoke(&authority, directory, 2, -1, 0);
	warn(&server_files, 0, time(NULL));
	ck_assert_uint_eq(log_capture_count(LOG_LEVEL_WARNING), 0);
}
END_TEST

static const struct {
	mode_t mode;
	bool warned;
} modes[] = {{0600, false}, {0640, false}, {0644, true}, {0602, true}};

START_TEST(secret_that_others_can_read_is_warned_about)
{
	static const struct tls_files psk_files = {.side = TLS_CLIENT, .psk = file};
	char path[SCRATCH_PATH + 32], expected[3 * SCRATCH_PATH];

	certificates_write(directory, "keys.psk", "alice:" KEY "\n", strlen("alice:" KEY "\n"));
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", directory,
			 i ? "keys.psk" : TLS_SERVER_KEY_FILE);
		ck_assert_int_eq(chmod(path, modes[_i].mode), 0);
		warn(i ? &psk_files : &server_files, 0, time(NULL));
		snprintf(expected, sizeof(expected),
			 "%s: every user of this machine can use it (mode %03o): chmod o= %s", path,
			 (unsigned int)modes[_i].mode, path);
		ck_assert_int_eq(log_capture_has(LOG_LEVEL_WARNING, expected), modes[_i].warned);
	}
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

/* ---- files of all kinds */

static const char *const all_files[] = {TLS_CA_FILE, TLS_CRL_FILE, TLS_SERVER_CERT_FILE,
					TLS_SERVER_KEY_FILE, "keys.psk"};

/* Nobody writes to the FIFO: opening it would wait for ever. */
START_TEST(only_regular_files_are_read)
{
	const struct tls_files files = {.side = TLS_SERVER, .certificates = directory, .psk = file};
	char path[SCRATCH_PATH + 32], text[64];

	certificates_write(directory, "keys.psk", "alice:" KEY "\n", strlen("alice:" KEY "\n"));
	snprintf(path, sizeof(path), "%s/%s", directory, all_files[_i]);
	unlink(path);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	snprintf(text, sizeof(text), "/%s: Not a regular file", all_files[_i]);
	expect_error(&files, text);
	lose(all_files[_i]);
	ck_assert_int_eq(symlink("/dev/zero", path), 0);
	expect_error(&files, text);
	lose(all_files[_i]);
}
END_TEST

/* ---- PSK */

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
		{.test = key_with_a_password_is_refused, .last = 2},
		{.test = list_of_another_authority_is_refused, .last = 4},
		{.test = list_needs_its_authority},
		{.test = list_is_of_one_of_several_authorities, .last = 2},
		{.test = list_of_other_times_is_warned_about, .last = 2},
		{.test = authority_of_other_times_is_warned_about, .last = 2},
		{.test = each_end_is_warned_about_once},
		{.test = list_without_an_end_has_none},
		{.test = secret_that_others_can_read_is_warned_about,
		 .last = (int)(sizeof(modes) / sizeof(modes[0]))},
		{.test = only_regular_files_are_read,
		 .last = (int)(sizeof(all_files) / sizeof(all_files[0]))},
		{.test = priority_is_checked},
		{.test = client_chooses_its_user},
		{0},
	};

	return suite_run("tls_credentials", cases);
}
