/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's side of TLS, against a client that has the right key and behaves in any way.  An
 * input is a setup byte and then commands (enum command), each of one byte and two bytes of a
 * number, for the client and for the wire that its bytes take.
 *
 * Whatever is done to the wire, the server gets a part of what the client sent, from its beginning,
 * and not a byte else.  If records were only cut, merged, or sent in pieces, it gets all.
 *
 * Each run has random numbers of its own, as TLS demands: what a run does on the wire depends on
 * its input only, the encrypted bytes do not.
 */
#include "fuzz/fuzz.h"

#include "nbd/tls/session.h"
#include "nbd/tls/session_state.h"

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* Bits of the setup byte. */
#define OLD_PROTOCOL 0x01 /* TLS 1.2 */
#define SMALL_OUTPUT 0x02 /* the server's */

enum command {
	DELIVER,       /* so many bytes reach the server */
	EXCHANGE,      /* both sides say what they have to say */
	WRITE,         /* so many bytes of data in records of 16 KiB */
	WRITE_BYTES,   /* so many records (of 256) of one byte */
	ANSWER,        /* the server writes so many bytes */
	SPLIT_RECORDS, /* of the wire, while they are in clear: at most so many bytes in each */
	MERGE_RECORDS, /* likewise: those of one kind become one */
	UPDATE_KEYS,   /* odd: the server's, too */
	/* What follows ends the session, sooner or later. */
	CLOSE,
	FLIP,      /* a bit of the wire */
	CUT,       /* so many bytes of the wire */
	REPEAT,    /* so many bytes at its end */
	INSERT,    /* so many bytes (of 64) of the input itself */
	ALERT,     /* level and number */
	NEGOTIATE, /* the client begins another handshake */
	COMMANDS,
};

#define HEADER 5 /* bytes of a record's header */

struct wire {
	uint8_t bytes[1 << 18];
	size_t length;
};

struct side {
	struct tls_session *session;
	enum tls_result result; /* TLS_MORE: of the handshake, TLS_DONE: it is over */
	struct tls_input input;
	struct nbd_output output;
};

struct run {
	struct side client, server;
	struct wire wire;     /* from the client to the server */
	struct wire received; /* what the server's session has not yet taken */
	struct wire back;     /* from the server to the client */
	size_t said, heard;   /* bytes of data, of the client's */
	size_t answered, got; /* the same, of the server's */
	unsigned int updates; /* of the client's keys */
	bool hostile;         /* the session need not go on */
};

static struct tls_credentials *servers, *clients, *old_clients;

static uint8_t
data_at(size_t position)
{
	return (uint8_t)(position * 7 + position / 251);
}

/* ---- set-up */

static struct tls_credentials *
credentials(enum tls_side side, const char *psk, const char *priority)
{
	const struct tls_files files = {.side = side, .psk = psk, .priority = priority};
	struct tls_credentials *loaded;
	char *error;

	CHECK(tls_credentials_load(&files, &loaded, &error) == 0);
	return loaded;
}

static void
load_credentials(void)
{
	static const char line[] = "fuzzer:000102030405060708090a0b0c0d0e0f\n";
	char path[] = "/tmp/fuzz-tls-XXXXXX";
	int fd = mkstemp(path);

	CHECK(fd >= 0 && write(fd, line, sizeof(line) - 1) == sizeof(line) - 1);
	close(fd);
	servers = credentials(TLS_SERVER, path, NULL);
	/* This group is the fastest. */
	clients = credentials(TLS_CLIENT, path,
			      "NORMAL:-VERS-ALL:+VERS-TLS1.3:-GROUP-ALL:+GROUP-X25519");
	old_clients = credentials(
		TLS_CLIENT, path,
		"NORMAL:-VERS-ALL:+VERS-TLS1.2:-KX-ALL:+ECDHE-PSK:-GROUP-ALL:+GROUP-X25519");
	unlink(path);
}

static void
side_begin(struct side *side, struct tls_credentials *credentials, size_t room)
{
	CHECK(tls_session_new(&side->session, credentials, NULL) == 0);
	side->result = TLS_MORE;
	side->output = (struct nbd_output){malloc(room), room, 0};
	CHECK(side->output.bytes);
}

static void
side_end(struct side *side)
{
	tls_session_free(side->session);
	free(side->output.bytes);
}

/* ---- the wire */

static void
wire_add(struct wire *wire, const uint8_t *bytes, size_t length)
{
	/* A client that says more than that is not listened to. */
	if (length > sizeof(wire->bytes) - wire->length)
		length = sizeof(wire->bytes) - wire->length;
	memmove(wire->bytes + wire->length, bytes, length);
	wire->length += length;
}

static void
wire_cut(struct wire *wire, size_t at, size_t length)
{
	memmove(wire->bytes + at, wire->bytes + at + length, wire->length - at - length);
	wire->length -= length;
}

/* What a side has said goes to the wire. */
static void
flush(struct side *side, struct wire *wire, bool *hostile)
{
	if (side->output.used > sizeof(wire->bytes) - wire->length)
		*hostile = true;
	wire_add(wire, side->output.bytes, side->output.used);
	side->output.used = 0;
}

/* The length of the record at that place, with its header; 0: it isn't whole, or no handshake's. */
static size_t
record_at(const struct wire *wire, size_t at)
{
	const uint8_t *record = wire->bytes + at;
	size_t length;

	if (wire->length - at < HEADER || record[0] != 22)
		return 0;
	length = HEADER + ((size_t)record[3] << 8 | record[4]);
	return length <= wire->length - at ? length : 0;
}

static void
record_add(struct wire *wire, const uint8_t *header, const uint8_t *data, size_t length)
{
	const uint8_t made[HEADER] = {header[0], header[1], header[2], (uint8_t)(length >> 8),
				      (uint8_t)length};

	wire_add(wire, made, sizeof(made));
	wire_add(wire, data, length);
}

/* Cuts the client's first records, which are in clear, into records of up to `size` bytes. */
static void
split_records(struct wire *wire, size_t size)
{
	static struct wire whole;
	size_t at = 0, length;

	whole = *wire;
	wire->length = 0;
	while ((length = record_at(&whole, at)) > HEADER) {
		for (size_t begin = HEADER; begin < length; begin += size)
			record_add(wire, whole.bytes + at, whole.bytes + at + begin,
				   length - begin < size ? length - begin : size);
		at += length;
	}
	wire_add(wire, whole.bytes + at, whole.length - at);
}

static void
merge_records(struct wire *wire)
{
	size_t first = record_at(wire, 0), next;

	while (first > 0 && (next = record_at(wire, first)) > 0 && first + next < TLS_RECORD_DATA) {
		size_t data;

		wire_cut(wire, first, HEADER);
		first += next - HEADER;
		data = first - HEADER;
		wire->bytes[3] = (uint8_t)(data >> 8);
		wire->bytes[4] = (uint8_t)data;
	}
}

/* ---- the server */

static void
server_failed(const struct run *run)
{
	const struct side *server = &run->server;

	CHECK(run->hostile);
	CHECK(server->result == TLS_CLOSED || tls_session_reason(server->session)[0]);
}

static void
server_shake(struct run *run)
{
	struct side *server = &run->server;

	do {
		server->result =
			tls_session_handshake(server->session, &server->input, &server->output);
		CHECK(server->output.used <= server->output.size);
		CHECK(server->result != TLS_CLOSED);
		/* What was full was not empty. */
		CHECK(server->result != TLS_FULL || server->output.used > 0);
		flush(server, &run->back, &run->hostile);
	} while (server->result == TLS_FULL);
	CHECK(server->result != TLS_MORE || server->input.length == 0);
}

static void
server_read(struct run *run)
{
	struct side *server = &run->server;
	uint8_t bytes[1000];
	size_t length;
	enum tls_result result;

	do {
		result = tls_session_read(server->session, &server->input, bytes, sizeof(bytes),
					  &length);
		CHECK((length > 0) == (result == TLS_DONE) && length <= sizeof(bytes));
		CHECK(length <= run->said - run->heard);
		for (size_t i = 0; i < length; i++)
			CHECK(bytes[i] == data_at(run->heard + i));
		run->heard += length;
	} while (result == TLS_DONE);
	CHECK(result != TLS_MORE || server->input.length == 0);
	CHECK(result != TLS_FULL);
	if (result != TLS_MORE)
		server->result = result;
}

static bool
server_is_over(const struct run *run)
{
	return run->server.result == TLS_FAILED || run->server.result == TLS_CLOSED;
}

static void
deliver(struct run *run, size_t length)
{
	struct side *server = &run->server;

	if (server_is_over(run))
		return;
	length = length < run->wire.length ? length : run->wire.length;
	/* The session has taken all that came before. */
	run->received.length = 0;
	wire_add(&run->received, run->wire.bytes, length);
	wire_cut(&run->wire, 0, length);
	server->input = (struct tls_input){run->received.bytes, run->received.length};
	if (server->result == TLS_MORE)
		server_shake(run);
	if (server->result == TLS_DONE)
		server_read(run);
	if (server_is_over(run))
		server_failed(run);
	flush(server, &run->back, &run->hostile);
}

/* Sends data; the client, which still waits for its handshake, does not. */
static void
answer(struct run *run, size_t length)
{
	static const uint8_t data[1 << 16];
	struct side *server = &run->server;
	enum tls_result result = TLS_DONE;
	size_t taken;

	while (server->result == TLS_DONE && length > 0 && result == TLS_DONE) {
		result = tls_session_write(server->session, data, length, &taken, &server->output);
		CHECK(server->output.used <= server->output.size);
		CHECK(result == TLS_DONE || result == TLS_FAILED || server->output.size < TLS_ROOM);
		length -= taken;
		run->answered += taken;
		flush(server, &run->back, &run->hostile);
	}
	/* Its own session never fails by what it writes. */
	CHECK(result != TLS_FAILED || run->hostile);
}

/* ---- the client */

/* Its answers and its handshake; it never learns of what is wrong. */
static void
client_turn(struct run *run)
{
	struct side *client = &run->client;
	enum tls_result result = TLS_DONE;
	uint8_t bytes[4096];
	size_t length;

	client->input = (struct tls_input){run->back.bytes, run->back.length};
	if (client->result == TLS_MORE)
		client->result =
			tls_session_handshake(client->session, &client->input, &client->output);
	while (client->result == TLS_DONE && result == TLS_DONE) {
		result = tls_session_read(client->session, &client->input, bytes, sizeof(bytes),
					  &length);
		run->got += length;
	}
	/* The server's records are right, whatever keys they have. */
	CHECK(run->hostile || (client->result != TLS_FAILED && result != TLS_FAILED));
	run->back.length = 0;
	flush(client, &run->wire, &run->hostile);
}

static void
exchange(struct run *run)
{
	/* A handshake takes two or three rounds. */
	for (unsigned int round = 0; round < 4; round++) {
		client_turn(run);
		deliver(run, run->wire.length);
	}
}

static void
client_write(struct run *run, size_t length, size_t record)
{
	uint8_t data[TLS_RECORD_DATA];
	struct side *client = &run->client;
	size_t taken;

	while (client->result == TLS_DONE && length > 0) {
		size_t n = length < record ? length : record;

		for (size_t i = 0; i < n; i++)
			data[i] = data_at(run->said + i);
		if (tls_session_write(client->session, data, n, &taken, &client->output) !=
		    TLS_DONE)
			return;
		run->said += taken;
		length -= taken;
		flush(client, &run->wire, &run->hostile);
	}
}

/* GnuTLS's functions that a session has no use for: their output is the client's. */
static void
client_trick(struct run *run, enum command command, unsigned int number)
{
	struct tls_session *session = run->client.session;

	if (command != ALERT && run->client.result != TLS_DONE)
		return;
	session->output = &run->client.output;
	if (command == UPDATE_KEYS)
		gnutls_session_key_update(session->tls, number & 1 ? GNUTLS_KU_PEER : 0);
	else if (command == ALERT)
		gnutls_alert_send(session->tls, number & 1 ? GNUTLS_AL_FATAL : GNUTLS_AL_WARNING,
				  (gnutls_alert_description_t)(number >> 8));
	else
		gnutls_handshake(session->tls);
	session->output = NULL;
	flush(&run->client, &run->wire, &run->hostile);
}

/* ---- commands */

static void
disturb(struct run *run, enum command command, unsigned int number)
{
	struct wire *wire = &run->wire;
	size_t length = number < wire->length ? number : wire->length;

	if (command == FLIP && wire->length > 0)
		wire->bytes[(number >> 3) % wire->length] ^= (uint8_t)(1u << (number & 7));
	else if (command == CUT)
		wire_cut(wire, 0, length);
	else if (command == REPEAT)
		wire_add(wire, wire->bytes + wire->length - length, length);
}

/* Returns how many bytes of the input that follows it has taken. */
static size_t
obey(struct run *run, enum command command, unsigned int number, const uint8_t *data, size_t size)
{
	size_t taken = 0;

	run->hostile |= command >= CLOSE;
	/* GnuTLS ends a session whose keys change more than eight times in a second. */
	run->hostile |= command == UPDATE_KEYS && ++run->updates > 8;
	switch (command) {
	case DELIVER: deliver(run, number); break;
	case EXCHANGE: exchange(run); break;
	case WRITE: client_write(run, number, TLS_RECORD_DATA); break;
	case WRITE_BYTES: client_write(run, number % 256, 1); break;
	case ANSWER: answer(run, number); break;
	case SPLIT_RECORDS:
	case MERGE_RECORDS:
		if (run->client.result == TLS_MORE && command == SPLIT_RECORDS)
			split_records(&run->wire, number ? number : 1);
		else if (run->client.result == TLS_MORE)
			merge_records(&run->wire);
		break;
	case UPDATE_KEYS:
	case ALERT:
	case NEGOTIATE: client_trick(run, command, number); break;
	case CLOSE:
		if (run->client.result == TLS_DONE)
			tls_session_close(run->client.session, &run->client.output);
		flush(&run->client, &run->wire, &run->hostile);
		break;
	case INSERT:
		taken = number % 64 < size ? number % 64 : size;
		wire_add(&run->wire, data, taken);
		break;
	default: disturb(run, command, number); break;
	}
	return taken;
}

static void
finish(struct run *run)
{
	exchange(run);
	if (run->hostile)
		return;
	CHECK(run->client.result == TLS_DONE && run->server.result == TLS_DONE);
	client_write(run, 1000, 10);
	exchange(run);
	CHECK(run->heard == run->said && run->got == run->answered);
	CHECK(tls_session_at_record(run->server.session));
	CHECK(!tls_session_has_data(run->server.session));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct run run;

	if (size < 1 || size > 3000)
		return 0;
	if (!servers)
		load_credentials();
	memset(&run, 0, sizeof(run));
	side_begin(&run.client, data[0] & OLD_PROTOCOL ? old_clients : clients, 1 << 17);
	side_begin(&run.server, servers, data[0] & SMALL_OUTPUT ? 512 : TLS_ROOM);
	client_turn(&run);
	for (data++, size--; size >= 3;) {
		enum command command = data[0] % COMMANDS;
		unsigned int number = (unsigned int)data[1] << 8 | data[2];
		size_t taken;

		data += 3;
		size -= 3;
		taken = obey(&run, command, number, data, size);
		data += taken;
		size -= taken;
	}
	finish(&run);
	side_end(&run.client);
	side_end(&run.server);
	return 0;
}
