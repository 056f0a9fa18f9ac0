/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One side of TLS, the tested one, against a peer that has the right key or certificate and behaves
 * in any way.  An input is a setup byte and then commands (enum command), each of one byte and two
 * bytes of a number, for the peer and for the wire that its bytes take.
 *
 * Whatever is done to the wire, the tested side gets a part of what the peer sent, from its
 * beginning, and not a byte else; and it takes the peer for nobody but who it is.  If records were
 * only cut, merged, or sent in pieces, it gets all.
 *
 * Each run has random numbers of its own, as TLS demands: what a run does on the wire depends on
 * its input only, the encrypted bytes do not.
 */
#include "fuzz/fuzz.h"
#include "nbd/tls/credentials.h"
#include "nbd/tls/session.h"
#include "nbd/tls/session_state.h"

#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- credentials of both sides */

/* Bits of a kind of credentials. */
#define OLD_PROTOCOL 0x01 /* TLS 1.2 */
#define CERTIFICATES 0x02 /* of both sides, which check them; else a key */
#define KINDS        0x04

/* What the certificates name, and the user of the key. */
#define FUZZ_CLIENT "fuzzer"
#define FUZZ_SERVER "server.example"

/*
 * Certificates that never expire, and prove nothing to anybody else.  Made with certtool(1), of
 * ECDSA keys: with Ed25519, GnuTLS's client shows no certificate by TLS 1.2.
 */
static const char CA_CERT[] = "-----BEGIN CERTIFICATE-----\n"
			      "MIIBZzCCAQ2gAwIBAgIBATAKBggqhkjOPQQDAjAaMRgwFgYDVQQDDA90aGUgZnV6\n"
			      "emVyJ3MgQ0EwIBcNMjAwMTAxMDAwMDAwWhgPOTk5OTEyMzEyMzU5NTlaMBoxGDAW\n"
			      "BgNVBAMMD3RoZSBmdXp6ZXIncyBDQTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IA\n"
			      "BAf2PXo6SGlaudf2UnLOVFZUdqUoFcLhJgdKIDsjgBSHWd7Gin+dDYgOjfyXRxOb\n"
			      "CY+BXcTMpWKK/lwpqFcprbijQjBAMA8GA1UdEwEB/wQFMAMBAf8wDgYDVR0PAQH/\n"
			      "BAQDAgIEMB0GA1UdDgQWBBTmkf31vQ7kKrO/sbHimoNFBtBIKzAKBggqhkjOPQQD\n"
			      "AgNIADBFAiAZe5sNgBkl0f+tOxyhMNE2Ius3itp9259PRKglcdrokAIhALGcg20H\n"
			      "LcvG2LXkiKTpZPlmzj3AY2PG4knNZapJfXis\n"
			      "-----END CERTIFICATE-----\n";

static const char SERVER_CERT[] =
	"-----BEGIN CERTIFICATE-----\n"
	"MIIBtzCCAVygAwIBAgIBAjAKBggqhkjOPQQDAjAaMRgwFgYDVQQDDA90aGUgZnV6\n"
	"emVyJ3MgQ0EwIBcNMjAwMTAxMDAwMDAwWhgPOTk5OTEyMzEyMzU5NTlaMBkxFzAV\n"
	"BgNVBAMTDnNlcnZlci5leGFtcGxlMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n"
	"1dy3SX/PGXppg4Coe/eOf8H+C5TvuM0n6Tx4u1zyGhizYvJxTwEz0iOGoPShDo/w\n"
	"erbEEtQIMXBTP0wcenqBHqOBkTCBjjAMBgNVHRMBAf8EAjAAMBkGA1UdEQQSMBCC\n"
	"DnNlcnZlci5leGFtcGxlMBMGA1UdJQQMMAoGCCsGAQUFBwMBMA4GA1UdDwEB/wQE\n"
	"AwIHgDAdBgNVHQ4EFgQUNOW655uk8vLU8FAMpOM1k1+1wA0wHwYDVR0jBBgwFoAU\n"
	"5pH99b0O5Cqzv7Gx4pqDRQbQSCswCgYIKoZIzj0EAwIDSQAwRgIhANuwNQXBB9Fg\n"
	"gYQZQwEotry6Zhsf5Pql8d6ijzsTij6yAiEApZHXlUdYGUZNjpXs2XrBmmBx7Dbf\n"
	"XP2TchGp4oNB3TI=\n"
	"-----END CERTIFICATE-----\n";

static const char SERVER_KEY[] =
	"-----BEGIN PRIVATE KEY-----\n"
	"MIGUAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBHoweAIBAQQhAJah8/BY+6vLuPD9\n"
	"84yWbyiLOO0NWUF2yBzPdcqN4TCFoAoGCCqGSM49AwEHoUQDQgAE1dy3SX/PGXpp\n"
	"g4Coe/eOf8H+C5TvuM0n6Tx4u1zyGhizYvJxTwEz0iOGoPShDo/werbEEtQIMXBT\n"
	"P0wcenqBHg==\n"
	"-----END PRIVATE KEY-----\n";

static const char CLIENT_CERT[] =
	"-----BEGIN CERTIFICATE-----\n"
	"MIIBkTCCATegAwIBAgIBAzAKBggqhkjOPQQDAjAaMRgwFgYDVQQDDA90aGUgZnV6\n"
	"emVyJ3MgQ0EwIBcNMjAwMTAxMDAwMDAwWhgPOTk5OTEyMzEyMzU5NTlaMBExDzAN\n"
	"BgNVBAMTBmZ1enplcjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABEOypmx/j16b\n"
	"YPoAVTPftBouLaHlBlLRYRIbikgbqhWZ4BKUMZ/XAuuRbtrCH4aIhbcvIy7ugIAm\n"
	"5UkWwImp9RyjdTBzMAwGA1UdEwEB/wQCMAAwEwYDVR0lBAwwCgYIKwYBBQUHAwIw\n"
	"DgYDVR0PAQH/BAQDAgeAMB0GA1UdDgQWBBRMavdhehzIa1w0IuCizYVEV03+QzAf\n"
	"BgNVHSMEGDAWgBTmkf31vQ7kKrO/sbHimoNFBtBIKzAKBggqhkjOPQQDAgNIADBF\n"
	"AiA25gO3VSJDxHmjk/SOkYRt3ajBsPN9wryHVW6XJ0sOTgIhANQ4HcNlV/oBtllh\n"
	"T/b45Q7o6alv00/6F6+tn+KvynKE\n"
	"-----END CERTIFICATE-----\n";

static const char CLIENT_KEY[] =
	"-----BEGIN PRIVATE KEY-----\n"
	"MIGTAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBHkwdwIBAQQgGyDug10Z1WyDPY/q\n"
	"Ak/qiTjNN1FL/S152ufWh0S1lRqgCgYIKoZIzj0DAQehRANCAARDsqZsf49em2D6\n"
	"AFUz37QaLi2h5QZS0WESG4pIG6oVmeASlDGf1wLrkW7awh+GiIW3LyMu7oCAJuVJ\n"
	"FsCJqfUc\n"
	"-----END PRIVATE KEY-----\n";

/* By kind. */
static struct tls_credentials *servers[KINDS], *clients[KINDS];

static void
write_file(const char *directory, const char *name, const char *text)
{
	char path[200];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "w");
	CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* `kind`: bits of the setup byte. */
static struct tls_credentials *
credentials_read(enum tls_side side, const char *directory, unsigned int kind)
{
	char psk[200];
	const struct tls_files files = {
		.side = side,
		.psk = kind & CERTIFICATES ? NULL : psk,
		.certificates = kind & CERTIFICATES ? directory : NULL,
		/* This group is the fastest. */
		.priority = side == TLS_SERVER ? NULL
			    : kind & OLD_PROTOCOL
				    ? "NORMAL:-VERS-ALL:+VERS-TLS1.2:-KX-ALL:+ECDHE-PSK:"
				      "+ECDHE-ECDSA:-GROUP-ALL:+GROUP-X25519"
				    : "NORMAL:-VERS-ALL:+VERS-TLS1.3:-GROUP-ALL:+GROUP-X25519",
	};
	struct tls_credentials *loaded;
	char *error;

	snprintf(psk, sizeof(psk), "%s/keys.psk", directory);
	CHECK(tls_credentials_load(&files, &loaded, &error) == 0);
	return loaded;
}

static void
load_credentials(void)
{
	static const struct {
		const char *name, *text;
	} files[] = {
		{"keys.psk", FUZZ_CLIENT ":000102030405060708090a0b0c0d0e0f\n"},
		{TLS_CA_FILE, CA_CERT},
		{TLS_SERVER_CERT_FILE, SERVER_CERT},
		{TLS_SERVER_KEY_FILE, SERVER_KEY},
		{TLS_CLIENT_CERT_FILE, CLIENT_CERT},
		{TLS_CLIENT_KEY_FILE, CLIENT_KEY},
	};
	enum {
		FILES = sizeof(files) / sizeof(*files)
	};
	char directory[] = "/tmp/fuzz-tls-XXXXXX", path[200];

	umask(077);
	CHECK(mkdtemp(directory));
	for (unsigned int i = 0; i < FILES; i++)
		write_file(directory, files[i].name, files[i].text);
	for (unsigned int kind = 0; kind < KINDS; kind++) {
		servers[kind] = credentials_read(TLS_SERVER, directory, kind);
		clients[kind] = credentials_read(TLS_CLIENT, directory, kind);
	}
	for (unsigned int i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "%s/%s", directory, files[i].name);
		unlink(path);
	}
	rmdir(directory);
}

/* Those of one side; other bits of `kind` are ignored.  Borrowed; the first call loads all. */
static struct tls_credentials *
fuzz_credentials(enum tls_side side, unsigned int kind)
{
	if (!servers[0])
		load_credentials();
	kind %= KINDS;
	return side == TLS_SERVER ? servers[kind] : clients[kind];
}

/* Bits of the setup byte; the lowest are those of the credentials. */
#define SMALL_OUTPUT 0x04 /* of the tested side */
#define TEST_CLIENT  0x08 /* else the server is tested */

enum command {
	DELIVER,       /* so many bytes reach the tested side */
	EXCHANGE,      /* both sides say what they have to say */
	WRITE,         /* so many bytes of data in records of 16 KiB */
	WRITE_BYTES,   /* so many records (of 256) of one byte */
	ANSWER,        /* the tested side writes so many bytes */
	SPLIT_RECORDS, /* of the wire, while they are in clear: at most so many bytes in each */
	MERGE_RECORDS, /* likewise: those of one kind become one */
	UPDATE_KEYS,   /* odd: those of the tested side, too */
	/* What follows ends the session, sooner or later. */
	CLOSE,
	FLIP,      /* a bit of the wire */
	CUT,       /* so many bytes of the wire */
	REPEAT,    /* so many bytes at its end */
	INSERT,    /* so many bytes (of 64) of the input itself */
	ALERT,     /* level and number */
	NEGOTIATE, /* the peer begins another handshake, or asks for one */
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
	uint8_t setup;
	struct side peer, tested;
	struct wire wire;     /* from the peer to the tested side */
	struct wire received; /* what the tested session has not yet taken */
	struct wire back;     /* from the tested side to the peer */
	size_t said, heard;   /* bytes of data, of the peer's */
	size_t answered, got; /* the same, of the tested side's */
	unsigned int updates; /* of the peer's keys */
	bool hostile;         /* the session need not go on */
};

static uint8_t
data_at(size_t position)
{
	return (uint8_t)(position * 7 + position / 251);
}

/* ---- set-up */

static void
side_begin(struct side *side, bool client, unsigned int kind, size_t room)
{
	struct tls_credentials *credentials =
		fuzz_credentials(client ? TLS_CLIENT : TLS_SERVER, kind);

	CHECK(tls_session_new(&side->session, credentials, client ? FUZZ_SERVER : NULL) == 0);
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
	/* A peer that says more than that is not listened to. */
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
side_flush(struct side *side, struct wire *wire, bool *hostile)
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

/* Cuts the peer's first records, which are in clear, into records of up to `size` bytes. */
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

/* ---- the tested side */

/* Certificates don't fit into less. */
static size_t
tested_room(uint8_t setup)
{
	if (!(setup & SMALL_OUTPUT))
		return TLS_ROOM;
	return setup & CERTIFICATES ? 2048 : 512;
}

static bool
is_text(const char *text, const char *expected)
{
	return expected ? text && strcmp(text, expected) == 0 : !text;
}

static void
check_identity(const struct run *run)
{
	const bool client = run->setup & TEST_CLIENT, certificates = run->setup & CERTIFICATES;
	struct tls_identity identity;

	CHECK(tls_session_identity(run->tested.session, &identity) == 0);
	CHECK(is_text(identity.user, certificates || client ? NULL : FUZZ_CLIENT));
	CHECK(is_text(identity.name, !certificates ? NULL : client ? FUZZ_SERVER : FUZZ_CLIENT));
	tls_identity_fini(&identity);
}

static void
tested_shake(struct run *run)
{
	struct side *tested = &run->tested;

	do {
		tested->result =
			tls_session_handshake(tested->session, &tested->input, &tested->output);
		CHECK(tested->output.used <= tested->output.size);
		CHECK(tested->result != TLS_CLOSED);
		/* What was full was not empty. */
		CHECK(tested->result != TLS_FULL || tested->output.used > 0);
		side_flush(tested, &run->back, &run->hostile);
	} while (tested->result == TLS_FULL);
	CHECK(tested->result != TLS_MORE || tested->input.length == 0);
	if (tested->result == TLS_DONE)
		check_identity(run);
}

static void
tested_read(struct run *run)
{
	struct side *tested = &run->tested;
	uint8_t bytes[1000];
	size_t length;
	enum tls_result result;

	do {
		result = tls_session_read(tested->session, &tested->input, bytes, sizeof(bytes),
					  &length);
		CHECK((length > 0) == (result == TLS_DONE) && length <= sizeof(bytes));
		CHECK(length <= run->said - run->heard);
		for (size_t i = 0; i < length; i++)
			CHECK(bytes[i] == data_at(run->heard + i));
		run->heard += length;
	} while (result == TLS_DONE);
	CHECK(result != TLS_MORE || tested->input.length == 0);
	CHECK(result != TLS_FULL);
	if (result != TLS_MORE)
		tested->result = result;
}

static bool
tested_is_over(const struct run *run)
{
	return run->tested.result == TLS_FAILED || run->tested.result == TLS_CLOSED;
}

static void
run_deliver(struct run *run, size_t length)
{
	struct side *tested = &run->tested;

	if (tested_is_over(run))
		return;
	length = length < run->wire.length ? length : run->wire.length;
	/* The session has taken all that came before. */
	run->received.length = 0;
	wire_add(&run->received, run->wire.bytes, length);
	wire_cut(&run->wire, 0, length);
	tested->input = (struct tls_input){run->received.bytes, run->received.length};
	if (tested->result == TLS_MORE)
		tested_shake(run);
	if (tested->result == TLS_DONE)
		tested_read(run);
	if (tested_is_over(run)) {
		CHECK(run->hostile);
		CHECK(tested->result == TLS_CLOSED || tls_session_reason(tested->session)[0]);
	}
	side_flush(tested, &run->back, &run->hostile);
}

/* Sends data, unless it still waits for its handshake. */
static void
run_answer(struct run *run, size_t length)
{
	static const uint8_t data[1 << 16];
	struct side *tested = &run->tested;
	enum tls_result result = TLS_DONE;
	size_t taken;

	while (tested->result == TLS_DONE && length > 0 && result == TLS_DONE) {
		result = tls_session_write(tested->session, data, length, &taken, &tested->output);
		CHECK(tested->output.used <= tested->output.size);
		CHECK(result == TLS_DONE || result == TLS_FAILED || tested->output.size < TLS_ROOM);
		length -= taken;
		run->answered += taken;
		side_flush(tested, &run->back, &run->hostile);
	}
	/* Its own session never fails by what it writes. */
	CHECK(result != TLS_FAILED || run->hostile);
}

/* ---- the peer */

/* Its answers and its handshake; it never learns of what is wrong. */
static void
peer_turn(struct run *run)
{
	struct side *peer = &run->peer;
	enum tls_result result = TLS_DONE;
	uint8_t bytes[4096];
	size_t length;

	peer->input = (struct tls_input){run->back.bytes, run->back.length};
	if (peer->result == TLS_MORE)
		peer->result = tls_session_handshake(peer->session, &peer->input, &peer->output);
	while (peer->result == TLS_DONE && result == TLS_DONE) {
		result = tls_session_read(peer->session, &peer->input, bytes, sizeof(bytes),
					  &length);
		run->got += length;
	}
	/* The tested side's records are right, whatever keys they have. */
	CHECK(run->hostile || (peer->result != TLS_FAILED && result != TLS_FAILED));
	run->back.length = 0;
	side_flush(peer, &run->wire, &run->hostile);
}

static void
run_exchange(struct run *run)
{
	/* A handshake takes two or three rounds. */
	for (unsigned int round = 0; round < 4; round++) {
		peer_turn(run);
		run_deliver(run, run->wire.length);
	}
}

static void
peer_write(struct run *run, size_t length, size_t record)
{
	uint8_t data[TLS_RECORD_DATA];
	struct side *peer = &run->peer;
	size_t taken;

	while (peer->result == TLS_DONE && length > 0) {
		size_t n = length < record ? length : record;

		for (size_t i = 0; i < n; i++)
			data[i] = data_at(run->said + i);
		if (tls_session_write(peer->session, data, n, &taken, &peer->output) != TLS_DONE)
			return;
		run->said += taken;
		length -= taken;
		side_flush(peer, &run->wire, &run->hostile);
	}
}

/* GnuTLS's functions that a session has no use for: their output is the peer's. */
static void
peer_trick(struct run *run, enum command command, unsigned int number)
{
	struct tls_session *session = run->peer.session;

	if (command != ALERT && run->peer.result != TLS_DONE)
		return;
	session->output = &run->peer.output;
	if (command == UPDATE_KEYS)
		gnutls_session_key_update(session->tls, number & 1 ? GNUTLS_KU_PEER : 0);
	else if (command == ALERT)
		gnutls_alert_send(session->tls, number & 1 ? GNUTLS_AL_FATAL : GNUTLS_AL_WARNING,
				  (gnutls_alert_description_t)(number >> 8));
	else if (session->credentials->side == TLS_SERVER)
		gnutls_rehandshake(session->tls);
	else
		gnutls_handshake(session->tls);
	session->output = NULL;
	side_flush(&run->peer, &run->wire, &run->hostile);
}

/* ---- commands */

static void
run_disturb(struct run *run, enum command command, unsigned int number)
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
run_obey(struct run *run, enum command command, unsigned int number, const uint8_t *data,
	 size_t size)
{
	size_t taken = 0;

	run->hostile |= command >= CLOSE;
	/* GnuTLS ends a session whose keys change more than eight times in a second. */
	run->hostile |= command == UPDATE_KEYS && ++run->updates > 8;
	switch (command) {
	case DELIVER: run_deliver(run, number); break;
	case EXCHANGE: run_exchange(run); break;
	case WRITE: peer_write(run, number, TLS_RECORD_DATA); break;
	case WRITE_BYTES: peer_write(run, number % 256, 1); break;
	case ANSWER: run_answer(run, number); break;
	case SPLIT_RECORDS:
	case MERGE_RECORDS:
		if (run->peer.result == TLS_MORE && command == SPLIT_RECORDS)
			split_records(&run->wire, number ? number : 1);
		else if (run->peer.result == TLS_MORE)
			merge_records(&run->wire);
		break;
	case UPDATE_KEYS:
	case ALERT:
	case NEGOTIATE: peer_trick(run, command, number); break;
	case CLOSE:
		if (run->peer.result == TLS_DONE)
			tls_session_close(run->peer.session, &run->peer.output);
		side_flush(&run->peer, &run->wire, &run->hostile);
		break;
	case INSERT:
		taken = number % 64 < size ? number % 64 : size;
		wire_add(&run->wire, data, taken);
		break;
	default: run_disturb(run, command, number); break;
	}
	return taken;
}

static void
run_finish(struct run *run)
{
	run_exchange(run);
	if (run->hostile)
		return;
	CHECK(run->peer.result == TLS_DONE && run->tested.result == TLS_DONE);
	peer_write(run, 1000, 10);
	run_exchange(run);
	CHECK(run->heard == run->said && run->got == run->answered);
	CHECK(tls_session_at_record(run->tested.session));
	CHECK(!tls_session_has_data(run->tested.session));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct run run;

	if (size < 1 || size > 3000)
		return 0;
	memset(&run, 0, sizeof(run));
	run.setup = data[0];
	side_begin(&run.peer, !(run.setup & TEST_CLIENT), run.setup, 1 << 17);
	side_begin(&run.tested, run.setup & TEST_CLIENT, run.setup, tested_room(run.setup));
	peer_turn(&run);
	for (data++, size--; size >= 3;) {
		enum command command = data[0] % COMMANDS;
		unsigned int number = (unsigned int)data[1] << 8 | data[2];
		size_t taken;

		data += 3;
		size -= 3;
		taken = run_obey(&run, command, number, data, size);
		data += taken;
		size -= taken;
	}
	run_finish(&run);
	side_end(&run.peer);
	side_end(&run.tested);
	return 0;
}
