/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS sessions between two sides that fit together.
 */
#include "nbd/tls/session.h"

#include "nbd/tls/ktls.h"
#include "nbd/tls/session_state.h"
#include "tests/lib/suite.h"
#include "tests/unit/nbd/tls_pair.h"

#include <check.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

START_TEST(certificates_prove_both_sides)
{
	struct tls_identity identity;

	piece = pieces[_i];
	open_side(&server, &server_files, NULL);
	open_side(&client, &client_files, "server.example.org");
	expect_done("1.3 AES-128-GCM");
	send_data(&server, &client);
	send_data(&client, &server);
	ck_assert_int_eq(tls_session_identity(server.session, &identity), 0);
	ck_assert_ptr_null(identity.user);
	ck_assert_str_eq(identity.name, "client.example.org");
	ck_assert_str_eq(identity.dn, "CN=client.example.org");
	ck_assert_str_eq(identity.names[0], "dns:client.example.org");
	ck_assert_str_eq(identity.names[1], "ip:127.0.0.1");
	ck_assert_ptr_null(identity.names[2]);
	tls_identity_fini(&identity);
}
END_TEST

START_TEST(certificate_with_two_common_names_proves_nothing)
{
	struct tls_identity identity;

	authority.second = "another.example.org";
	authority_issue(&authority, directory, TLS_CLIENT, "client.example.org", -1, 1);
	open_side(&server, &server_files, NULL);
	open_side(&client, &client_files, "server.example.org");
	shake_hands();
	ck_assert_int_eq(tls_session_identity(server.session, &identity), -EINVAL);
	ck_assert_ptr_null(identity.name);
	tls_identity_fini(&identity);
}
END_TEST

START_TEST(keys_prove_both_sides)
{
	struct tls_identity identity;

	piece = pieces[_i];
	open_side(&server, &server_psk, NULL);
	open_side(&client, &client_psk, NULL);
	expect_done("1.3 AES-128-GCM");
	send_data(&client, &server);
	send_data(&server, &client);
	ck_assert_int_eq(tls_session_identity(server.session, &identity), 0);
	ck_assert_str_eq(identity.user, "alice");
	ck_assert_ptr_null(identity.name);
	ck_assert_ptr_null(identity.names);
	tls_identity_fini(&identity);
}
END_TEST

START_TEST(server_has_certificates_and_keys_at_once)
{
	const struct tls_files both = {.side = TLS_SERVER, .certificates = directory, .psk = file};

	open_side(&server, &both, NULL);
	open_side(&client, _i ? &client_psk : &client_files, "server.example.org");
	shake_hands();
	ck_assert_msg(server.result == TLS_DONE, "%s", tls_session_reason(server.session));
	ck_assert_msg(client.result == TLS_DONE, "%s", tls_session_reason(client.session));
}
END_TEST

START_TEST(tls_1_2_works_too)
{
	static const struct tls_files old = {.side = TLS_CLIENT,
					     .certificates = directory,
					     .priority = "NORMAL:-VERS-ALL:+VERS-TLS1.2"};

	piece = pieces[_i];
	open_side(&server, &server_files, NULL);
	open_side(&client, &old, "server.example.org");
	expect_done("1.2 AES-128-GCM");
	send_data(&server, &client);
	send_data(&client, &server);
}
END_TEST

START_TEST(end_of_session_is_told)
{
	open_side(&server, &server_psk, NULL);
	open_side(&client, &client_psk, NULL);
	shake_hands();
	tls_session_close(client.session, &client.output);
	deliver(&server, &client);
	ck_assert_int_eq(read_nothing(&server), TLS_CLOSED);
}
END_TEST

/* Live sessions keep the credentials that they began with. */
START_TEST(session_outlives_its_credentials)
{
	struct tls_identity identity;

	open_side(&server, &server_files, NULL);
	open_side(&client, &client_files, "server.example.org");
	expect_done("1.3 AES-128-GCM");
	/* open_side() gave its references back. */
	ck_assert_int_eq(tls_session_identity(server.session, &identity), 0);
	tls_identity_fini(&identity);
	send_data(&server, &client);
}
END_TEST

START_TEST(full_output_takes_no_data)
{
	size_t taken;

	open_side(&server, &server_psk, NULL);
	open_side(&client, &client_psk, NULL);
	shake_hands();
	client.output.size = client.output.used + TLS_ROOM - 1;
	ck_assert_int_eq(tls_session_write(client.session, "x", 1, &taken, &client.output),
			 TLS_FULL);
	ck_assert_uint_eq(taken, 0);
	client.output.size = sizeof(client.bytes);
	ck_assert_int_eq(tls_session_write(client.session, "x", 1, &taken, &client.output),
			 TLS_DONE);
	ck_assert_uint_eq(taken, 1);
}
END_TEST

/* A handshake goes on when the output, which was full, was sent. */
START_TEST(full_output_of_a_handshake_is_told)
{
	open_side(&server, &server_files, NULL);
	open_side(&client, &client_files, "server.example.org");
	step(&client);
	deliver(&server, &client);
	server.output.size = 10;
	step(&server);
	ck_assert_int_eq(server.result, TLS_FULL);
	server.output.size = sizeof(server.bytes);
	server.result = TLS_MORE;
	expect_done("1.3 AES-128-GCM");
}
END_TEST

/* Splits the client's records, which are all in clear, into records of one byte of data. */
static void
split_records(void)
{
	static uint8_t whole[sizeof(client.bytes)];
	size_t used = client.output.used, at = 0, to = 0;

	memcpy(whole, client.bytes, used);
	while (at < used) {
		size_t length = (size_t)whole[at + 3] << 8 | whole[at + 4];

		for (size_t i = 0; i < length; i++) {
			const uint8_t record[] = {whole[at], whole[at + 1],    whole[at + 2], 0,
						  1,         whole[at + 5 + i]};

			memcpy(client.bytes + to, record, sizeof(record));
			to += sizeof(record);
		}
		at += 5 + length;
	}
	client.output.used = to;
}

/* OpenSSL's clients with max_send_fragment do that with their certificates. */
START_TEST(message_in_many_records_is_taken_at_once)
{
	open_side(&server, &server_files, NULL);
	open_side(&client, &client_files, "server.example.org");
	step(&client);
	split_records();
	expect_done("1.3 AES-128-GCM");
	send_data(&server, &client);
}
END_TEST

/* The client changes its keys, wants the server to change its own, and goes on. */
START_TEST(data_behind_new_keys_are_read_at_once)
{
	uint8_t bytes[16];
	size_t taken, length;

	open_side(&server, &server_psk, NULL);
	open_side(&client, &client_psk, NULL);
	shake_hands();
	client.output.used = 0;
	server.input = (struct tls_input){0};
	client.session->output = &client.output;
	ck_assert_int_eq(gnutls_session_key_update(client.session->tls, GNUTLS_KU_PEER), 0);
	client.session->output = NULL;
	ck_assert_int_eq(tls_session_write(client.session, "x", 1, &taken, &client.output),
			 TLS_DONE);
	deliver(&server, &client);
	ck_assert_int_eq(
		tls_session_read(server.session, &server.input, bytes, sizeof(bytes), &length),
		TLS_DONE);
	ck_assert_uint_eq(length, 1);
	client.output.used = 0;
	server.input = (struct tls_input){0};
	send_data(&client, &server);
	send_data(&server, &client);
}
END_TEST

/* ---- the kernel's TLS */

START_TEST(kernel_takes_no_unix_socket)
{
	char reason[KTLS_REASON_MAX];
	int fds[2];

	open_side(&server, &server_psk, NULL);
	open_side(&client, &client_psk, NULL);
	shake_hands();
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	ck_assert_int_eq(ktls_begin(server.session, fds[0], reason), 1);
	ck_assert_str_eq(reason, "not a TCP socket");
	close(fds[0]);
	close(fds[1]);
	/* The session goes on. */
	send_data(&server, &client);
}
END_TEST

int
main(void)
{
	const struct suite_row cases[] = {
		{.name = "session", .begin_once = make_directory, .end_once = remove_directory},
		{.begin = begin, .end = end},
		{.test = certificates_prove_both_sides, .last = PIECES},
		{.test = certificate_with_two_common_names_proves_nothing},
		{.test = keys_prove_both_sides, .last = PIECES},
		{.test = server_has_certificates_and_keys_at_once, .last = 2},
		{.test = tls_1_2_works_too, .last = PIECES},
		{.test = end_of_session_is_told},
		{.test = session_outlives_its_credentials},
		{.test = full_output_takes_no_data},
		{.test = full_output_of_a_handshake_is_told},
		{.test = message_in_many_records_is_taken_at_once},
		{.test = data_behind_new_keys_are_read_at_once},
		{.test = kernel_takes_no_unix_socket},
		{0},
	};

	return suite_run("tls_session", cases);
}
