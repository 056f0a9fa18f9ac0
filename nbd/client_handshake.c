/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client's side of the handshake: splits the server's bytes into its greeting and its replies,
 * and answers each.
 */
#include "nbd/client_handshake.h"

#include "nbd/text.h"
#include "nbd/wire.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* "Oldstyle negotiation": two magics, size, flags of 32 bits, zeroes. */
#define OLDSTYLE_MAGIC UINT64_C(0x0000420281861253)
#define OLDSTYLE_SIZE  (16 + 8 + 4 + NBD_EXPORT_ZEROES)

/* The most replies to NBD_OPT_GO. There are four types of information; a server that never stops
 * must not keep its client busy for ever. */
#define REPLIES_MAX 100

void
nbd_client_handshake_init(struct nbd_client_handshake *h, const char *export, bool tls)
{
	assert(strlen(export) <= NBD_STRING_MAX);
	/* The buffer, which is half of the structure, needs no clearing. */
	memset(h, 0, offsetof(struct nbd_client_handshake, in));
	h->export = export;
	h->tls = tls;
}

__attribute__((format(printf, 2, 3))) static void
client_fail(struct nbd_client_handshake *h, const char *format, ...)
{
	va_list values;

	va_start(values, format);
	vsnprintf(h->reason, sizeof(h->reason), format, values);
	va_end(values);
	h->at = NBD_CLIENT_AT_END;
	h->result = NBD_CLIENT_FAILED;
}

static void
client_finish(struct nbd_client_handshake *h)
{
	/* A device's size, like a file's, is a signed number. */
	if (h->size > INT64_MAX) {
		client_fail(h, "the server tells an impossible size, %" PRIu64 " bytes", h->size);
		return;
	}
	h->at = NBD_CLIENT_AT_END;
	h->result = NBD_CLIENT_READY;
}

/* ---- the client's bytes */

static uint8_t *
option_begin(struct nbd_output *output, enum nbd_opt option, size_t length)
{
	uint8_t *place = output->bytes + output->used;

	assert(NBD_OPTION_HEADER_SIZE + length <= output->size - output->used);
	output->used += NBD_OPTION_HEADER_SIZE + length;
	place = wire_store64(place, NBD_OPTION_MAGIC);
	place = wire_store32(place, option);
	return wire_store32(place, (uint32_t)length);
}

static void
send_flags(struct nbd_client_handshake *h, uint16_t server, struct nbd_output *output)
{
	uint32_t flags = 0;

	h->no_zeroes = server & NBD_FLAG_NO_ZEROES;
	if (server & NBD_FLAG_FIXED_NEWSTYLE)
		flags |= NBD_FLAG_C_FIXED_NEWSTYLE;
	if (h->no_zeroes)
		flags |= NBD_FLAG_C_NO_ZEROES;
	wire_store32(output->bytes + output->used, flags);
	output->used += NBD_CLIENT_FLAGS_SIZE;
}

static void
send_go(struct nbd_client_handshake *h, struct nbd_output *output)
{
	const uint32_t length = (uint32_t)strlen(h->export);
	uint8_t *place = option_begin(output, NBD_OPT_GO, 4 + length + 4);

	place = wire_store32(place, length);
	memcpy(place, h->export, length);
	place = wire_store16(place + length, 1);
	wire_store16(place, NBD_INFO_BLOCK_SIZE);
	h->at = NBD_CLIENT_AT_REPLY;
}

static void
send_export_name(struct nbd_client_handshake *h, struct nbd_output *output)
{
	const size_t length = strlen(h->export);

	memcpy(option_begin(output, NBD_OPT_EXPORT_NAME, length), h->export, length);
	h->at = NBD_CLIENT_AT_EXPORT;
}

void
nbd_client_handshake_secured(struct nbd_client_handshake *h, struct nbd_output *output)
{
	assert(h->at == NBD_CLIENT_AT_TLS && output->used == 0);
	h->result = NBD_CLIENT_MORE;
	send_go(h, output);
}

/* ---- the server's bytes; each function returns how many it consumed, 0 if more must come first */

static size_t
take_greeting(struct nbd_client_handshake *h, struct nbd_output *output)
{
	uint16_t flags;

	if (h->have < NBD_GREETING_SIZE)
		return 0;
	if (wire_load64(h->in) == NBD_MAGIC && wire_load64(h->in + 8) == OLDSTYLE_MAGIC) {
		h->at = NBD_CLIENT_AT_OLDSTYLE;
		return 0;
	}
	if (wire_load64(h->in) != NBD_MAGIC || wire_load64(h->in + 8) != NBD_OPTION_MAGIC) {
		client_fail(h, "this is no NBD server");
		return 0;
	}
	flags = wire_load16(h->in + 16);
	if (h->tls && !(flags & NBD_FLAG_FIXED_NEWSTYLE)) {
		client_fail(h, "the server has no TLS (it has no fixed newstyle negotiation)");
		return 0;
	}
	send_flags(h, flags, output);
	if (h->tls) {
		option_begin(output, NBD_OPT_STARTTLS, 0);
		h->at = NBD_CLIENT_AT_STARTTLS;
	} else if (flags & NBD_FLAG_FIXED_NEWSTYLE) {
		send_go(h, output);
	} else {
		send_export_name(h, output);
	}
	return NBD_GREETING_SIZE;
}

static size_t
take_oldstyle(struct nbd_client_handshake *h)
{
	if (h->have < OLDSTYLE_SIZE)
		return 0;
	if (h->tls) {
		client_fail(h, "the server has no TLS (oldstyle negotiation)");
		return 0;
	}
	if (*h->export) {
		client_fail(h, "the server has one export, without a name (oldstyle negotiation)");
		return 0;
	}
	h->size = wire_load64(h->in + 16);
	h->flags = (uint16_t)wire_load32(h->in + 24);
	client_finish(h);
	return OLDSTYLE_SIZE;
}

static size_t
client_take_export(struct nbd_client_handshake *h)
{
	const size_t size = NBD_EXPORT_REPLY_SIZE + (h->no_zeroes ? 0 : NBD_EXPORT_ZEROES);

	if (h->have < size)
		return 0;
	h->size = wire_load64(h->in);
	h->flags = wire_load16(h->in + 8);
	client_finish(h);
	return size;
}

static void
take_info(struct nbd_client_handshake *h, const uint8_t *data, uint32_t length)
{
	const uint16_t type = length >= 2 ? wire_load16(data) : UINT16_MAX;

	if (type == NBD_INFO_EXPORT && length == NBD_INFO_EXPORT_SIZE) {
		h->size = wire_load64(data + 2);
		h->flags = wire_load16(data + 10);
		h->described = true;
	} else if (type == NBD_INFO_BLOCK_SIZE && length == NBD_INFO_BLOCK_SIZE_SIZE) {
		h->smallest_block = wire_load32(data + 2);
		if (!h->smallest_block || h->smallest_block & (h->smallest_block - 1) ||
		    h->smallest_block > NBD_MIN_BLOCK_MAX)
			client_fail(h,
				    "the server wants an impossible block size, %" PRIu32 " bytes",
				    h->smallest_block);
	} else if (length < 2 || type == NBD_INFO_EXPORT || type == NBD_INFO_BLOCK_SIZE) {
		client_fail(h,
			    "the server describes the export in %" PRIu32 " bytes, which is wrong",
			    length);
	}
}

static const char *
refusal_meaning(uint32_t type)
{
	switch (type) {
	case NBD_REP_ERR_POLICY: return "the server's policy forbids the export";
	case NBD_REP_ERR_TLS_REQD: return "the server demands TLS (nbds://) for the export";
	case NBD_REP_ERR_UNKNOWN: return "the server has no export";
	case NBD_REP_ERR_SHUTDOWN: return "the server is shutting down, and refuses the export";
	default: return "the server refuses the export";
	}
}

/* The server's words, without control characters. */
static void
take_words(char words[NBD_STRING_MAX + 1], const uint8_t *data, uint32_t length)
{
	const bool told = length > 0 && nbd_text_valid((const char *)data, length);
	uint32_t used = 0;

	for (; told && used < length && used < NBD_STRING_MAX; used++)
		words[used] = (char)(data[used] < ' ' || data[used] == 0x7f ? '?' : data[used]);
	words[used] = '\0';
}

static void
take_error(struct nbd_client_handshake *h, uint32_t type, const uint8_t *data, uint32_t length)
{
	char words[NBD_STRING_MAX + 1];

	take_words(words, data, length);
	client_fail(h, "%s \"%.*s\"%s%s", refusal_meaning(type), (int)nbd_text_cut(h->export, 64),
		    h->export, *words ? ": " : "", words);
}

struct reply {
	uint32_t type, length;
	const uint8_t *data;
};

/* Returns whether a whole reply to that option is there. */
static bool
find_reply(struct nbd_client_handshake *h, enum nbd_opt option, struct reply *reply)
{
	if (h->have < NBD_REP_HEADER_SIZE)
		return false;
	*reply = (struct reply){
		.type = wire_load32(h->in + 12),
		.length = wire_load32(h->in + 16),
		.data = h->in + NBD_REP_HEADER_SIZE,
	};
	if (wire_load64(h->in) == NBD_REP_MAGIC && wire_load32(h->in + 8) == option &&
	    reply->length <= NBD_CLIENT_REPLY_MAX)
		return h->have >= NBD_REP_HEADER_SIZE + reply->length;
	client_fail(h, "the server's reply is not the one to the option that was sent");
	return false;
}

static size_t
take_tls_reply(struct nbd_client_handshake *h)
{
	char words[NBD_STRING_MAX + 1];
	struct reply reply;

	if (!find_reply(h, NBD_OPT_STARTTLS, &reply))
		return 0;
	if (reply.type == NBD_REP_ACK) {
		h->at = NBD_CLIENT_AT_TLS;
		h->result = NBD_CLIENT_TLS;
		return NBD_REP_HEADER_SIZE + reply.length;
	}
	take_words(words, reply.data, reply.length);
	client_fail(h, "the server refuses TLS%s%s", *words ? ": " : "", words);
	return 0;
}

static size_t
take_reply(struct nbd_client_handshake *h, struct nbd_output *output)
{
	struct reply reply;

	if (!find_reply(h, NBD_OPT_GO, &reply))
		return 0;
	if (++h->replies > REPLIES_MAX)
		client_fail(h, "the server describes the export without end");
	else if (reply.type == NBD_REP_INFO)
		take_info(h, reply.data, reply.length);
	else if (reply.type == NBD_REP_ACK && h->described)
		client_finish(h);
	else if (reply.type == NBD_REP_ERR_UNSUP)
		send_export_name(h, output);
	else if (reply.type & NBD_REP_ERR(0))
		take_error(h, reply.type, reply.data, reply.length);
	else
		client_fail(h, "the server doesn't describe the export");
	return NBD_REP_HEADER_SIZE + reply.length;
}

static size_t
client_take(struct nbd_client_handshake *h, struct nbd_output *output)
{
	switch (h->at) {
	case NBD_CLIENT_AT_GREETING: return take_greeting(h, output);
	case NBD_CLIENT_AT_OLDSTYLE: return take_oldstyle(h);
	case NBD_CLIENT_AT_STARTTLS: return take_tls_reply(h);
	case NBD_CLIENT_AT_TLS:
		if (h->have > 0)
			client_fail(
				h, "the server sent bytes in the clear after it had agreed to TLS");
		return 0;
	case NBD_CLIENT_AT_REPLY: return take_reply(h, output);
	case NBD_CLIENT_AT_EXPORT: return client_take_export(h);
	case NBD_CLIENT_AT_END:
		if (h->result == NBD_CLIENT_READY && h->have > 0)
			client_fail(h, "the server sent more than its answers");
		return 0;
	}
	return 0;
}

/* A switch to the oldstyle negotiation consumes nothing either. */
static void
client_take_all(struct nbd_client_handshake *h, struct nbd_output *output)
{
	size_t taken;
	int at;

	do {
		at = (int)h->at;
		taken = client_take(h, output);
		h->have -= taken;
		memmove(h->in, h->in + taken, h->have);
	} while (taken > 0 || (int)h->at != at);
}

enum nbd_client_result
nbd_client_handshake_feed(struct nbd_client_handshake *h, const uint8_t *bytes, size_t length,
			  struct nbd_output *output)
{
	assert(output->used == 0 && output->size >= NBD_CLIENT_ROOM);
	while (length > 0 && h->result != NBD_CLIENT_FAILED) {
		size_t piece = sizeof(h->in) - h->have;

		if (piece > length)
			piece = length;
		memcpy(h->in + h->have, bytes, piece);
		h->have += piece;
		bytes += piece;
		length -= piece;
		client_take_all(h, output);
	}
	return h->result;
}
