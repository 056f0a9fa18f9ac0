/* SPDX-License-Identifier: BSD-3-Clause */
#include "nbd/option_reply.h"

#include "nbd/protocol.h"
#include "nbd/text.h"
#include "nbd/wire.h"

#include <assert.h>
#include <string.h>

/* The longest replies: see NBD_HANDSHAKE_ROOM. */
_Static_assert(5 * NBD_REP_HEADER_SIZE + NBD_INFO_EXPORT_SIZE + NBD_INFO_BLOCK_SIZE_SIZE +
			       2 * (2 + NBD_STRING_MAX) <=
		       NBD_HANDSHAKE_ROOM,
	       "replies to NBD_OPT_GO fit");
_Static_assert(NBD_REP_HEADER_SIZE + 4 + 2 * NBD_STRING_MAX <= NBD_HANDSHAKE_ROOM,
	       "an entry of a list fits");

static uint8_t *
output_take(struct nbd_output *output, size_t length)
{
	uint8_t *place = output->bytes + output->used;

	assert(length <= output->size - output->used);
	output->used += length;
	return place;
}

static uint8_t *
reply_begin(struct nbd_output *output, uint32_t option, uint32_t type, size_t length)
{
	uint8_t *place = output_take(output, NBD_REP_HEADER_SIZE + length);

	place = wire_store64(place, NBD_REP_MAGIC);
	place = wire_store32(place, option);
	place = wire_store32(place, type);
	return wire_store32(place, (uint32_t)length);
}

static size_t
string_length(const char *text)
{
	size_t length = text ? strlen(text) : 0;

	assert(length <= NBD_STRING_MAX); /* nbd_export_problem() */
	return length;
}

bool
nbd_output_has_room(const struct nbd_output *output)
{
	return output->size - output->used >= NBD_HANDSHAKE_ROOM;
}

void
nbd_reply_greeting(struct nbd_output *output)
{
	uint8_t *place = output_take(output, NBD_GREETING_SIZE);

	place = wire_store64(place, NBD_MAGIC);
	place = wire_store64(place, NBD_OPTION_MAGIC);
	wire_store16(place, NBD_FLAG_FIXED_NEWSTYLE | NBD_FLAG_NO_ZEROES);
}

void
nbd_reply_ack(struct nbd_output *output, uint32_t option)
{
	reply_begin(output, option, NBD_REP_ACK, 0);
}

void
nbd_reply_refusal(struct nbd_output *output, uint32_t option, uint32_t type, const char *text)
{
	size_t length = nbd_text_cut(text, NBD_REP_TEXT_MAX);

	memcpy(reply_begin(output, option, type, length), text, length);
}

void
nbd_reply_server(struct nbd_output *output, uint32_t option, const struct nbd_export *export)
{
	size_t name = string_length(export->name);
	size_t description = string_length(export->description);
	uint8_t *place = reply_begin(output, option, NBD_REP_SERVER, 4 + name + description);

	place = wire_store32(place, (uint32_t)name);
	memcpy(place, export->name, name);
	if (description)
		memcpy(place + name, export->description, description);
}

void
nbd_reply_info_export(struct nbd_output *output, uint32_t option, uint64_t size, uint16_t flags)
{
	uint8_t *place = reply_begin(output, option, NBD_REP_INFO, NBD_INFO_EXPORT_SIZE);

	place = wire_store16(place, NBD_INFO_EXPORT);
	place = wire_store64(place, size);
	wire_store16(place, flags);
}

void
nbd_reply_info_text(struct nbd_output *output, uint32_t option, uint16_t type, const char *text)
{
	size_t length = string_length(text);
	uint8_t *place = reply_begin(output, option, NBD_REP_INFO, 2 + length);

	memcpy(wire_store16(place, type), text, length);
}

void
nbd_reply_info_block_size(struct nbd_output *output, uint32_t option,
			  const struct nbd_export *export)
{
	uint8_t *place = reply_begin(output, option, NBD_REP_INFO, NBD_INFO_BLOCK_SIZE_SIZE);

	place = wire_store16(place, NBD_INFO_BLOCK_SIZE);
	place = wire_store32(place, export->min_block);
	place = wire_store32(place, export->preferred_block);
	wire_store32(place, export->max_payload);
}

void
nbd_reply_context(struct nbd_output *output, uint32_t option, uint32_t id, const char *name)
{
	size_t length = string_length(name);
	uint8_t *place = reply_begin(output, option, NBD_REP_META_CONTEXT, 4 + length);

	memcpy(wire_store32(place, id), name, length);
}

void
nbd_reply_export(struct nbd_output *output, uint64_t size, uint16_t flags, bool zeroes)
{
	uint8_t *place =
		output_take(output, NBD_EXPORT_REPLY_SIZE + (zeroes ? NBD_EXPORT_ZEROES : 0));

	place = wire_store64(place, size);
	place = wire_store16(place, flags);
	if (zeroes)
		memset(place, 0, NBD_EXPORT_ZEROES);
}
