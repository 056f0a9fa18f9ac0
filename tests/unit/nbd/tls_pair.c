/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/nbd/tls_pair.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DATA_MAX (100u << 10)

const size_t pieces[PIECES] = {1, 7, 1 << 20};
size_t piece;
char directory[SCRATCH_PATH], file[SCRATCH_PATH + 16];
struct authority authority;
struct side client, server;

void
make_directory(void)
{
	scratch_directory_new(directory);
	snprintf(file, sizeof(file), "%s/keys.psk", directory);
}

void
remove_directory(void)
{
	scratch_directory_remove(directory);
}

void
write_keys(const char *text)
{
	certificates_write(directory, "keys.psk", text, strlen(text));
}

void
begin(void)
{
	char list[SCRATCH_PATH + 32];

	/* Only some tests have one. */
	snprintf(list, sizeof(list), "%s/%s", directory, TLS_CRL_FILE);
	unlink(list);
	authority_init(&authority);
	authority_write(&authority, directory);
	authority_issue(&authority, directory, TLS_SERVER, "server.example.org", -1, 1);
	authority_issue(&authority, directory, TLS_CLIENT, "client.example.org", -1, 1);
	write_keys("alice:" KEY "\n");
	piece = pieces[PIECES - 1];
}

void
end(void)
{
	tls_session_free(client.session);
	tls_session_free(server.session);
	client.session = server.session = NULL;
	authority_fini(&authority);
}

static struct tls_credentials *
load(const struct tls_files *files)
{
	struct tls_credentials *credentials;
	char *error;
	int r = tls_credentials_load(files, &credentials, &error);

	ck_assert_msg(r == 0, "%s", error ? error : strerror(-r));
	return credentials;
}

void
open_side(struct side *side, const struct tls_files *files, const char *name)
{
	struct tls_credentials *credentials = load(files);

	tls_session_free(side->session);
	ck_assert_int_eq(tls_session_new(&side->session, credentials, name), 0);
	/* The session has its own reference. */
	tls_credentials_unref(credentials);
	side->output =
		(struct nbd_output){.bytes = side->bytes, .size = sizeof(side->bytes), .used = 0};
	side->input = (struct tls_input){0};
	side->result = TLS_MORE;
}

const struct tls_files client_files = {.side = TLS_CLIENT, .certificates = directory};
const struct tls_files server_files = {.side = TLS_SERVER, .certificates = directory};
const struct tls_files client_psk = {.side = TLS_CLIENT, .psk = file};
const struct tls_files server_psk = {.side = TLS_SERVER, .psk = file};

bool
deliver(struct side *to, struct side *from)
{
	size_t at = to->input.bytes ? (size_t)(to->input.bytes - from->bytes) : 0;
	size_t left = from->output.used - at - to->input.length;

	to->input.bytes = from->bytes + at;
	to->input.length += left < piece ? left : piece;
	return left > 0;
}

void
step(struct side *side)
{
	if (side->result == TLS_MORE)
		side->result = tls_session_handshake(side->session, &side->input, &side->output);
}

void
shake_hands(void)
{
	bool more = true;

	step(&client);
	while (more) {
		more = deliver(&server, &client);
		step(&server);
		more = deliver(&client, &server) || more;
		step(&client);
	}
}

enum tls_result
read_nothing(struct side *side)
{
	uint8_t bytes[16];
	size_t length;

	return tls_session_read(side->session, &side->input, bytes, sizeof(bytes), &length);
}

void
expect_done(const char *description)
{
	shake_hands();
	ck_assert_msg(client.result == TLS_DONE, "%s", tls_session_reason(client.session));
	ck_assert_msg(server.result == TLS_DONE, "%s", tls_session_reason(server.session));
	ck_assert_str_eq(tls_session_describe(client.session), description);
	ck_assert_str_eq(tls_session_describe(server.session), description);
}

void
send_data(struct side *to, struct side *from)
{
	/* A call for each small piece: enough for two records, in which all of them occur. */
	const size_t data = piece < DATA_MAX ? 20u << 10 : DATA_MAX;
	static uint8_t sent[DATA_MAX], received[DATA_MAX];
	size_t taken, length, have = 0;

	for (size_t i = 0; i < data; i++)
		sent[i] = (uint8_t)(i * 7 + i / 251);
	for (size_t at = 0; at < data; at += taken)
		ck_assert_int_eq(tls_session_write(from->session, sent + at, data - at, &taken,
						   &from->output),
				 TLS_DONE);
	/* 1,000 bytes at a time: parts of records stay in the session. */
	while (have < data) {
		size_t size = data - have < 1000 ? data - have : 1000;
		enum tls_result result =
			tls_session_read(to->session, &to->input, received + have, size, &length);

		ck_assert_int_ne(result, TLS_FAILED);
		have += length;
		if (result == TLS_MORE)
			ck_assert(deliver(to, from));
	}
	ck_assert_mem_eq(sent, received, data);
	ck_assert(!tls_session_has_data(to->session));
	ck_assert(tls_session_at_record(to->session));
	/* For the next data. */
	from->output.used = 0;
	to->input = (struct tls_input){0};
}
