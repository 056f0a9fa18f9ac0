/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The handshake: splits the client's bytes into its flags and its options.
 */
#include "nbd/handshake.h"

#include "nbd/option.h"
#include "nbd/option_reply.h"
#include "nbd/wire.h"

#include <assert.h>
#include <string.h>

/* The client's bytes that are not consumed yet. */
struct input {
	const uint8_t *bytes;
	size_t left;
};

void
nbd_handshake_init(struct nbd_handshake *h, const struct nbd_handshake_config *config)
{
	/* The buffers, which are most of the structure, need no clearing. */
	memset(h, 0, offsetof(struct nbd_handshake, context_name));
	h->config = *config;
	h->at = NBD_AT_CLIENT_FLAGS;
}

void
nbd_handshake_greet(struct nbd_handshake *h, struct nbd_output *output)
{
	assert(h->at == NBD_AT_CLIENT_FLAGS && !h->have);
	nbd_reply_greeting(output);
}

/* Consumes input until `need` bytes have arrived in all; with `keep`, copies them to h->payload.
 * Returns whether all have arrived. */
static bool
handshake_take(struct nbd_handshake *h, struct input *input, uint32_t need, bool keep)
{
	uint32_t missing = need - h->have;
	uint32_t length = input->left < missing ? (uint32_t)input->left : missing;

	if (!length)
		return !missing;
	if (keep)
		memcpy(h->payload + h->have, input->bytes, length);
	h->have += length;
	input->bytes += length;
	input->left -= length;
	return h->have == need;
}

static void
take_client_flags(struct nbd_handshake *h)
{
	uint32_t flags = wire_load32(h->payload);

	h->have = 0;
	h->at = NBD_AT_OPTION;
	h->fixed = flags & NBD_FLAG_C_FIXED_NEWSTYLE;
	h->no_zeroes = flags & NBD_FLAG_C_NO_ZEROES;
	if (flags & ~(NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES))
		nbd_handshake_end(h, NBD_HANDSHAKE_CLOSE,
				  "the client set a flag that is not known");
}

static void
take_option_header(struct nbd_handshake *h)
{
	h->option = wire_load32(h->payload + 8);
	h->length = wire_load32(h->payload + 12);
	h->have = 0;
	if (wire_load64(h->payload) != NBD_OPTION_MAGIC)
		nbd_handshake_end(h, NBD_HANDSHAKE_CLOSE,
				  "an option of the client's does not begin as one");
	else if (++h->options > h->config.options)
		nbd_handshake_end(h, NBD_HANDSHAKE_CLOSE, "the client sent too many options");
	else if (h->length > h->config.skip)
		nbd_handshake_end(h, NBD_HANDSHAKE_CLOSE,
				  "the client sent an option that is far too long");
	/* Such a client would not understand the reply to any other option. */
	else if (!h->fixed && h->option != NBD_OPT_EXPORT_NAME)
		nbd_handshake_end(h, NBD_HANDSHAKE_CLOSE,
				  "the client sent an option that it is too old for");
	else if (nbd_option_has_data(h->option) && h->length <= NBD_OPTION_MAX)
		h->at = NBD_AT_PAYLOAD;
	else
		h->at = NBD_AT_SKIP;
}

/* Answers the option. Returns false if that has to wait. */
static bool
handshake_answer(struct nbd_handshake *h, struct nbd_output *output)
{
	h->have = 0;
	h->at = NBD_AT_OPTION;
	nbd_option_answer(h, output);
	return h->at != NBD_AT_ANSWER;
}

/* Takes one step. Returns false when the next one needs more input, more room in the output, or the
 * caller. */
static bool
handshake_step(struct nbd_handshake *h, struct input *input, struct nbd_output *output)
{
	switch (h->at) {
	case NBD_AT_CLIENT_FLAGS:
		if (!handshake_take(h, input, NBD_CLIENT_FLAGS_SIZE, true))
			return false;
		take_client_flags(h);
		return true;
	case NBD_AT_OPTION:
		if (!handshake_take(h, input, NBD_OPTION_HEADER_SIZE, true))
			return false;
		take_option_header(h);
		return true;
	case NBD_AT_PAYLOAD:
	case NBD_AT_SKIP:
		if (!handshake_take(h, input, h->length, h->at == NBD_AT_PAYLOAD) ||
		    !nbd_output_has_room(output))
			return false;
		return handshake_answer(h, output);
	case NBD_AT_ANSWER: return nbd_output_has_room(output) && handshake_answer(h, output);
	case NBD_AT_LIST: nbd_option_list(h, output); return h->at != NBD_AT_LIST;
	case NBD_AT_TLS:
		if (input->left)
			nbd_handshake_end(h, NBD_HANDSHAKE_CLOSE,
					  "the client sent data before TLS had begun");
		return false;
	case NBD_AT_END: return false;
	}
	return false;
}

static enum nbd_handshake_result
handshake_result(const struct nbd_handshake *h)
{
	switch (h->at) {
	case NBD_AT_END: return h->result;
	case NBD_AT_TLS: return NBD_HANDSHAKE_STARTTLS;
	case NBD_AT_ANSWER: return NBD_HANDSHAKE_WAITS;
	case NBD_AT_LIST: return NBD_HANDSHAKE_FULL;
	case NBD_AT_PAYLOAD:
	case NBD_AT_SKIP: return h->have == h->length ? NBD_HANDSHAKE_FULL : NBD_HANDSHAKE_MORE;
	default: return NBD_HANDSHAKE_MORE;
	}
}

enum nbd_handshake_result
nbd_handshake_feed(struct nbd_handshake *h, const uint8_t *bytes, size_t length, size_t *consumed,
		   struct nbd_output *output)
{
	struct input input = {bytes, length};

	assert(output->size >= NBD_HANDSHAKE_ROOM && output->used <= output->size);
	while (handshake_step(h, &input, output))
		;
	*consumed = length - input.left;
	return handshake_result(h);
}

void
nbd_handshake_secured(struct nbd_handshake *h)
{
	assert(h->at == NBD_AT_TLS);
	h->session = (struct nbd_session){0};
	h->context = false;
	h->bitmap_count = 0;
	h->secure = true;
	h->at = NBD_AT_OPTION;
}
