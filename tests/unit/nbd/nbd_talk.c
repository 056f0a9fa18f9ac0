/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/nbd/nbd_talk.h"

#include "nbd/wire.h"

#include <check.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define SAID_MAX  (1u << 20)
#define HEARD_MAX (1u << 20)

static char longest[NBD_STRING_MAX + 1];

struct nbd_export talk_disk, talk_cd, talk_longest;
struct nbd_handshake_config talk_config;
struct nbd_export_source talk_source;
struct nbd_refusal talk_refusal;
bool talk_read_only;
uint32_t talk_join_error;
unsigned int talk_joined, talk_found;
struct nbd_handshake talk_handshake;

static uint8_t said[SAID_MAX], heard[HEARD_MAX], again[HEARD_MAX];
static size_t said_length, sent, heard_length, taken;
static enum nbd_handshake_result result;
static bool secured;

static const struct nbd_export *
find(void *data, const char *name, size_t length, struct nbd_refusal *refusal)
{
	struct nbd_export *const exports[] = {&talk_disk, &talk_cd, &talk_longest};

	ck_assert_ptr_eq(data, &talk_config);
	talk_found++;
	if (talk_refusal.type) {
		*refusal = talk_refusal;
		return NULL;
	}
	for (size_t i = 0; i < 3; i++)
		if (strlen(exports[i]->name) == length && !memcmp(exports[i]->name, name, length))
			return exports[i];
	return length ? NULL : &talk_disk;
}

static const struct nbd_export *
list(void *data, size_t n)
{
	const struct nbd_export *const exports[] = {&talk_disk, &talk_cd, &talk_longest};

	ck_assert_ptr_eq(data, &talk_config);
	return n < 3 ? exports[n] : NULL;
}

static bool
read_only(void *data, const struct nbd_export *export)
{
	ck_assert_ptr_eq(data, &talk_config);
	ck_assert_ptr_nonnull(export);
	return talk_read_only;
}

static uint32_t
join(void *data, const struct nbd_export *export, const char **message)
{
	ck_assert_ptr_eq(data, &talk_config);
	ck_assert_ptr_nonnull(export);
	ck_assert_ptr_nonnull(*message);
	if (talk_join_error) {
		*message = "locked by somebody";
		return talk_join_error;
	}
	talk_joined++;
	return 0;
}

void
talk_begin(void)
{
	memset(longest, 'n', NBD_STRING_MAX);
	talk_disk = (struct nbd_export){
		.name = "disk",
		.description = "The disk",
		.size = UINT64_C(0x123456789a00),
		.min_block = 512,
		.preferred_block = 4096,
		.max_payload = 32u << 20,
		.flags = NBD_EXPORT_FLAGS & ~(NBD_FLAG_READ_ONLY | NBD_FLAG_ROTATIONAL),
		.allocation = true,
	};
	talk_cd = (struct nbd_export){
		.name = "cd",
		.size = 2048,
		.min_block = 1,
		.preferred_block = 2048,
		.max_payload = 1u << 20,
		.flags = NBD_EXPORT_FLAGS,
	};
	talk_longest = (struct nbd_export){
		.name = longest,
		.description = longest,
		.min_block = 1,
		.preferred_block = 512,
		.max_payload = 1u << 20,
		.allocation = true,
	};
	ck_assert_ptr_null(nbd_export_problem(&talk_disk));
	ck_assert_ptr_null(nbd_export_problem(&talk_cd));
	ck_assert_ptr_null(nbd_export_problem(&talk_longest));
	talk_source = (struct nbd_export_source){
		.find = find, .list = list, .read_only = read_only, .join = join};
	talk_config = (struct nbd_handshake_config){
		.exports = &talk_source,
		.data = &talk_config,
		.options = 64,
		.skip = 100000,
	};
	talk_join_error = 0;
	talk_refusal = (struct nbd_refusal){0};
	talk_read_only = false;
	talk_joined = talk_found = 0;
	said_length = sent = heard_length = taken = 0;
	secured = false;
}

void
talk_bytes(const void *bytes, size_t length)
{
	ck_assert_uint_le(length, SAID_MAX - said_length);
	if (length)
		memcpy(said + said_length, bytes, length);
	said_length += length;
}

void
talk_number(uint64_t number, unsigned int bytes)
{
	uint8_t wire[8];

	wire_store64(wire, number);
	talk_bytes(wire + 8 - bytes, bytes);
}

void
talk_flags(uint32_t flags)
{
	talk_number(flags, 4);
}

void
talk_option_header(uint32_t option, uint32_t length)
{
	talk_number(NBD_OPTION_MAGIC, 8);
	talk_number(option, 4);
	talk_number(length, 4);
}

void
talk_option(uint32_t option, const void *data, size_t length)
{
	talk_option_header(option, (uint32_t)length);
	talk_bytes(data, length);
}

static void
say_string(const char *text)
{
	talk_number(strlen(text), 4);
	talk_bytes(text, strlen(text));
}

void
talk_go(uint32_t option, const char *name, unsigned int infos, ...)
{
	va_list arguments;

	talk_option_header(option, (uint32_t)(6 + strlen(name) + 2 * infos));
	say_string(name);
	talk_number(infos, 2);
	va_start(arguments, infos);
	while (infos--)
		talk_number((unsigned int)va_arg(arguments, int), 2);
	va_end(arguments);
}

void
talk_context(uint32_t option, const char *name, unsigned int queries, ...)
{
	size_t length = 8 + strlen(name);
	va_list arguments;

	va_start(arguments, queries);
	for (unsigned int i = 0; i < queries; i++)
		length += 4 + strlen(va_arg(arguments, const char *));
	va_end(arguments);
	talk_option_header(option, (uint32_t)length);
	say_string(name);
	talk_number(queries, 4);
	va_start(arguments, queries);
	for (unsigned int i = 0; i < queries; i++)
		say_string(va_arg(arguments, const char *));
	va_end(arguments);
}

/* Check notes its place at each ck_assert(), which would take longer than everything else here. */
static void
require(bool condition, const char *what)
{
	if (!condition)
		ck_abort_msg("%s", what);
}

/* Feeds one piece (as large as it is, for valgrind and the sanitizers) until it is taken.  Returns
 * the bytes left over at an end. */
static size_t
feed(const uint8_t *bytes, size_t length, struct nbd_output *output, uint8_t *ears,
     size_t *ears_length)
{
	uint8_t *piece = malloc(length + !length);
	size_t at = 0, consumed;

	require(piece, "no memory");
	memcpy(piece, bytes, length);
	do {
		result = nbd_handshake_feed(&talk_handshake, piece + at, length - at, &consumed,
					    output);
		at += consumed;
		require(at <= length, "consumed more than there was");
		require(result != NBD_HANDSHAKE_MORE || at == length,
			"wants more than it has taken");
		require(output->used <= HEARD_MAX - *ears_length, "too much output for this test");
		memcpy(ears + *ears_length, output->bytes, output->used);
		*ears_length += output->used;
		output->used = 0;
	} while (result == NBD_HANDSHAKE_FULL);
	free(piece);
	return length - at;
}

enum nbd_handshake_result
talk_run(void)
{
	static uint8_t bytes[HEARD_MAX];
	struct nbd_output output = {bytes, sizeof(bytes), 0};

	if (!sent)
		nbd_handshake_init(&talk_handshake, &talk_config);
	if (talk_handshake.at == NBD_AT_TLS) {
		nbd_handshake_secured(&talk_handshake);
		secured = true;
	}
	sent = said_length - feed(said + sent, said_length - sent, &output, heard, &heard_length);
	return result;
}

void
talk_expect(uint32_t option, uint32_t type, struct talk_reply *reply)
{
	const uint8_t *at = heard + taken;
	uint32_t length;

	ck_assert_msg(heard_length - taken >= NBD_REP_HEADER_SIZE, "no reply to option %u", option);
	ck_assert_uint_eq(wire_load64(at), NBD_REP_MAGIC);
	ck_assert_uint_eq(wire_load32(at + 8), option);
	ck_assert_msg(wire_load32(at + 12) == type, "reply to option %u is %#x, not %#x", option,
		      wire_load32(at + 12), type);
	length = wire_load32(at + 16);
	ck_assert_uint_le(length, heard_length - taken - NBD_REP_HEADER_SIZE);
	if (type == NBD_REP_ACK)
		ck_assert_uint_eq(length, 0);
	if (reply)
		*reply = (struct talk_reply){length, at + NBD_REP_HEADER_SIZE};
	taken += NBD_REP_HEADER_SIZE + length;
}

void
talk_expect_bytes(const void *bytes, size_t length)
{
	ck_assert_uint_le(length, heard_length - taken);
	ck_assert_mem_eq(heard + taken, bytes, length);
	taken += length;
}

void
talk_expect_silence(void)
{
	ck_assert_uint_eq(heard_length, taken);
}

size_t
talk_left(void)
{
	return said_length - sent;
}

void
talk_expect_export(uint32_t option, uint64_t size, uint16_t flags)
{
	struct talk_reply reply;

	talk_expect(option, NBD_REP_INFO, &reply);
	ck_assert_uint_eq(reply.length, 12);
	ck_assert_uint_eq(wire_load16(reply.data), NBD_INFO_EXPORT);
	ck_assert_uint_eq(wire_load64(reply.data + 2), size);
	ck_assert_uint_eq(wire_load16(reply.data + 10), flags);
}

void
talk_expect_text(uint32_t option, uint16_t info, const char *text)
{
	struct talk_reply reply;

	talk_expect(option, NBD_REP_INFO, &reply);
	ck_assert_uint_eq(reply.length, 2 + strlen(text));
	ck_assert_uint_eq(wire_load16(reply.data), info);
	ck_assert_mem_eq(reply.data + 2, text, strlen(text));
}

void
talk_expect_error(uint32_t option, uint32_t type, const char *text)
{
	struct talk_reply reply;

	talk_expect(option, type, &reply);
	ck_assert_uint_gt(reply.length, 0);
	ck_assert_msg(memmem(reply.data, reply.length, text, strlen(text)),
		      "'%.*s' doesn't say '%s'", (int)reply.length, (const char *)reply.data, text);
}

/* Says the whole conversation again, in pieces of that size. */
static void
repeat(size_t piece)
{
	enum nbd_handshake_result wanted = result;
	struct nbd_output output = {malloc(NBD_HANDSHAKE_ROOM), NBD_HANDSHAKE_ROOM, 0};
	size_t again_length = 0, at = 0;

	ck_assert_ptr_nonnull(output.bytes);
	nbd_handshake_init(&talk_handshake, &talk_config);
	while (at < sent) {
		size_t length = sent - at < piece ? sent - at : piece;

		require(feed(said + at, length, &output, again, &again_length) == 0,
			"not all was taken");
		at += length;
		require(at == sent || result == NBD_HANDSHAKE_MORE, "ended early");
	}
	ck_assert_msg(result == wanted, "in pieces of %zu: result %d instead of %d", piece, result,
		      wanted);
	ck_assert_uint_eq(again_length, heard_length);
	ck_assert_mem_eq(again, heard, heard_length);
	free(output.bytes);
}

void
talk_end(void)
{
	const char *reason = talk_handshake.reason;
	struct nbd_session session = talk_handshake.session;

	/* TLS begins at a moment that is not repeated here. */
	if (secured || !sent || result == NBD_HANDSHAKE_STARTTLS || talk_config.tls != NBD_TLS_OFF)
		return;
	/* Most of a long conversation is data that is skipped. */
	for (size_t piece = 1; piece < 40 || piece < sent;
	     piece += piece < 40 && sent < 2000 ? 1 : piece + 12) {
		if (sent / piece > 50000)
			continue;
		repeat(piece);
		ck_assert_ptr_eq(talk_handshake.reason, reason);
		ck_assert_ptr_eq(talk_handshake.session.export, session.export);
		ck_assert_int_eq(talk_handshake.session.form, session.form);
		ck_assert_int_eq(talk_handshake.session.allocation, session.allocation);
	}
}
