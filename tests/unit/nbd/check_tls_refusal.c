/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS sessions that are refused, with the reasons that both sides see.
 */
#include "nbd/tls/session.h"

#include "tests/lib/suite.h"
#include "tests/unit/nbd/tls_pair.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void
expect_refusal(const char *server_reason, const char *client_reason)
{
	shake_hands();
	/* In TLS 1.3, a client has finished before the server checks it, and then gets an alert. */
	if (client.result == TLS_DONE)
		client.result = read_nothing(&client);
	if (server.result == TLS_DONE)
		server.result = read_nothing(&server);
	ck_assert_int_eq(server.result, TLS_FAILED);
	ck_assert_int_eq(client.result, TLS_FAILED);
	ck_assert_str_eq(tls_session_reason(server.session), server_reason);
	ck_assert_str_eq(tls_session_reason(client.session), client_reason);
}

/* By TLS 1.2, it shows at the end of the handshake. */
START_TEST(wrong_key_is_told_by_the_old_protocol)
{
	struct tls_files old = client_psk;

	old.priority = "NORMAL:-VERS-ALL:+VERS-TLS1.2:-KX-ALL";
	open_side(&server, &server_psk, NULL);
	write_keys(_i ? "bob:" KEY "\n" : "alice:" KEY "ff\n");
	open_side(&client, &old, NULL);
	shake_hands();
	ck_assert_int_eq(client.result, TLS_FAILED);
	ck_assert_msg(
		strstr(tls_session_reason(client.session), "the server does not know the user"),
		"%s", tls_session_reason(client.session));
}
END_TEST

START_TEST(wrong_key_is_refused)
{
	open_side(&server, &server_psk, NULL);
	write_keys("alice:" KEY "ff\n");
	open_side(&client, &client_psk, NULL);
	expect_refusal(
		"the key is wrong",
		"the server does not know the user \"alice\", or has another key for it (its "
		"alert: Illegal parameter)");
}
END_TEST

/* The client sees no difference from a wrong key. */
START_TEST(unknown_user_is_refused)
{
	open_side(&server, &server_psk, NULL);
	write_keys("bob:" KEY "\n");
	open_side(&client, &client_psk, NULL);
	expect_refusal("the user \"bob\" is unknown",
		       "the server does not know the user \"bob\", or has another key for it (its "
		       "alert: Illegal parameter)");
}
END_TEST

START_TEST(client_without_certificate_is_refused)
{
	char path[SCRATCH_PATH + 32];

	open_side(&server, &server_files, NULL);
	snprintf(path, sizeof(path), "%s/%s", directory, TLS_CLIENT_CERT_FILE);
	unlink(path);
	open_side(&client, &client_files, "server.example.org");
	expect_refusal("the client has shown no certificate, and ca-cert.pem is there to verify it "
		       "(tls-verify-peer=off lets in clients without one)",
		       "the server demands a certificate of its clients (its alert: Certificate is "
		       "required)");
}
END_TEST

START_TEST(client_of_another_authority_is_refused)
{
	struct authority other;

	open_side(&server, &server_files, NULL);
	authority_init(&other);
	authority_issue(&other, directory, TLS_CLIENT, "client.example.org", -1, 1);
	authority_fini(&other);
	open_side(&client, &client_files, "server.example.org");
	expect_refusal(
		"The certificate is NOT trusted. The signature in the certificate is invalid.",
		"the peer sent an alert: Certificate is bad");
}
END_TEST

START_TEST(revoked_client_is_refused)
{
	authority_revoke(&authority, directory, 2, -1, 1);
	open_side(&server, &server_files, NULL);
	open_side(&client, &client_files, "server.example.org");
	expect_refusal("The certificate is NOT trusted. The certificate chain is revoked.",
		       "the peer sent an alert: Certificate is bad");
}
END_TEST

START_TEST(server_of_another_name_is_refused)
{
	open_side(&server, &server_files, NULL);
	open_side(&client, &client_files, "another.example.org");
	expect_refusal(
		"the peer sent an alert: Certificate is bad",
		"The certificate is NOT trusted. The name in the certificate does not match the expected.");
}
END_TEST

START_TEST(server_of_another_authority_is_refused)
{
	struct authority other;

	open_side(&server, &server_files, NULL);
	authority_init(&other);
	authority_write(&other, directory);
	authority_fini(&other);
	open_side(&client, &client_files, "server.example.org");
	expect_refusal(
		"the peer sent an alert: Certificate is bad",
		"The certificate is NOT trusted. The signature in the certificate is invalid.");
}
END_TEST

START_TEST(address_of_the_server_is_checked)
{
	open_side(&server, &server_files, NULL);
	open_side(&client, &client_files, _i ? "127.0.0.2" : "127.0.0.1");
	shake_hands();
	ck_assert_int_eq(client.result, _i ? TLS_FAILED : TLS_DONE);
}
END_TEST

START_TEST(old_protocols_are_refused)
{
	/* Even if the user's text allows them. */
	static const struct tls_files old = {.side = TLS_CLIENT,
					     .certificates = directory,
					     .priority = "NORMAL:-VERS-ALL:+VERS-TLS1.1"};
	struct tls_credentials *credentials;
	char *error;

	ck_assert_int_lt(tls_credentials_load(&old, &credentials, &error), 0);
	ck_assert_str_eq(error, "the TLS priority: No or insufficient priorities were set.");
	free(error);
}
END_TEST

START_TEST(key_does_not_replace_a_certificate)
{
	open_side(&server, _i ? &server_psk : &server_files, NULL);
	open_side(&client, _i ? &client_files : &client_psk, "server.example.org");
	expect_refusal(_i ? "Insufficient credentials for that request."
			  : "the peer sent an alert: Handshake failed",
		       _i ? "the peer sent an alert: Handshake failed"
			  : "Insufficient credentials for that request.");
}
END_TEST

/* A bit that is flipped anywhere ends the session. */
START_TEST(changed_record_is_refused)
{
	size_t taken, at;

	open_side(&server, &server_psk, NULL);
	open_side(&client, &client_psk, NULL);
	shake_hands();
	at = client.output.used;
	tls_session_write(client.session, "data", 4, &taken, &client.output);
	client.bytes[at + 7] ^= 1;
	deliver(&server, &client);
	ck_assert_int_eq(read_nothing(&server), TLS_FAILED);
	ck_assert_str_eq(tls_session_reason(server.session), "Decryption has failed.");
	/* A server that first handles the data before it reads again, and must still know why. */
	ck_assert_int_eq(read_nothing(&server), TLS_FAILED);
	ck_assert_str_eq(tls_session_reason(server.session), "Decryption has failed.");
}
END_TEST

START_TEST(nonsense_is_refused)
{
	open_side(&server, &server_files, NULL);
	server.input = (struct tls_input){(const uint8_t *)"GET / HTTP/1.0\r\n\r\n", 18};
	step(&server);
	ck_assert_int_eq(server.result, TLS_FAILED);
	ck_assert_str_eq(tls_session_reason(server.session),
			 "An unexpected TLS packet was received.");
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "refusal", .begin_once = make_directory, .end_once = remove_directory},
		{.begin = begin, .end = end},
		{.test = wrong_key_is_refused},
		{.test = wrong_key_is_told_by_the_old_protocol, .last = 2},
		{.test = unknown_user_is_refused},
		{.test = client_without_certificate_is_refused},
		{.test = client_of_another_authority_is_refused},
		{.test = revoked_client_is_refused},
		{.test = server_of_another_name_is_refused},
		{.test = server_of_another_authority_is_refused},
		{.test = address_of_the_server_is_checked, .last = 2},
		{.test = old_protocols_are_refused},
		{.test = key_does_not_replace_a_certificate, .last = 2},
		{.test = changed_record_is_refused},
		{.test = nonsense_is_refused},
		{0},
	};

	return suite_run("tls_refusal", cases);
}
