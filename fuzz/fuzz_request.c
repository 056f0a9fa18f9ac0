/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests and replies.  An input begins with SETUP bytes that make a session; the rest are
 * requests, each followed by one byte that chooses how it is replied to.  What passes the check
 * must keep to the rules, and every reply must say what was put into it.
 */
#include "fuzz/fuzz.h"

#include "nbd/reply.h"
#include "nbd/request.h"
#include "nbd/wire.h"

#include <errno.h>
#include <string.h>

/* Form, max_payload, min_block, allocation (a byte each), flags, size. */
#define SETUP 14

struct chunk {
	uint16_t type;
	const uint8_t *payload;
	uint64_t length;
};

static void
session_init(struct nbd_session *session, const uint8_t *setup)
{
	*session = (struct nbd_session){
		.form = setup[0] % 3,
		.max_payload = 1u << (20 + setup[1] % 12),
		.min_block = 1u << setup[2] % 17,
		.flags = wire_load16(setup + 4) | NBD_FLAG_HAS_FLAGS,
		.size = wire_load64(setup + 6),
	};
	session->allocation = session->form != NBD_FORM_SIMPLE && setup[3] & 1;
	if (session->form == NBD_FORM_SIMPLE)
		session->flags &= ~NBD_FLAG_SEND_DF;
}

/* The rules once more, for what is to be served. */
static void
check_served(const struct nbd_session *session, const struct nbd_request *request,
	     const struct nbd_check *check)
{
	CHECK(request->type <= NBD_CMD_BLOCK_STATUS && request->type != NBD_CMD_DISC);
	CHECK(request->offset <= session->size &&
	      request->length <= session->size - request->offset);
	CHECK(request->length || request->type == NBD_CMD_FLUSH);
	CHECK(check->payload == (request->type == NBD_CMD_WRITE ? request->length : 0));
	if (request->type <= NBD_CMD_WRITE)
		CHECK(request->length <= session->max_payload);
	if (request->type == NBD_CMD_WRITE || request->type == NBD_CMD_TRIM ||
	    request->type == NBD_CMD_WRITE_ZEROES)
		CHECK(!(session->flags & NBD_FLAG_READ_ONLY));
	if (request->type == NBD_CMD_BLOCK_STATUS)
		CHECK(session->allocation);
	if (request->flags & NBD_CMD_FLAG_FAST_ZERO)
		CHECK(request->type == NBD_CMD_WRITE_ZEROES);
	if (request->flags & NBD_CMD_FLAG_DF)
		CHECK(request->type == NBD_CMD_READ && session->flags & NBD_FLAG_SEND_DF);
	if (request->flags & NBD_CMD_FLAG_FUA)
		CHECK(session->flags & NBD_FLAG_SEND_FUA);
	CHECK(!(request->flags & NBD_CMD_FLAG_PAYLOAD_LEN) ||
	      (session->form == NBD_FORM_EXTENDED && request->type == NBD_CMD_WRITE));
}

/* Takes a simple reply apart. */
static void
check_simple(const struct nbd_request *request, const uint8_t *bytes, size_t size, uint32_t error)
{
	CHECK(size == NBD_SIMPLE_REPLY_SIZE);
	CHECK(wire_load32(bytes) == NBD_SIMPLE_REPLY_MAGIC);
	CHECK(wire_load32(bytes + 4) == error);
	CHECK(wire_load64(bytes + 8) == request->cookie);
}

/* Takes a chunk apart; `behind` bytes of data follow it. */
static struct chunk
check_chunk(const struct nbd_session *session, const struct nbd_request *request,
	    const uint8_t *bytes, size_t size, bool last, uint64_t behind)
{
	bool extended = session->form == NBD_FORM_EXTENDED;
	size_t head = extended ? 32 : 20;
	struct chunk chunk;

	CHECK(size >= head);
	CHECK(wire_load32(bytes) ==
	      (extended ? NBD_EXTENDED_REPLY_MAGIC : NBD_STRUCTURED_REPLY_MAGIC));
	CHECK(wire_load16(bytes + 4) == (last ? NBD_REPLY_FLAG_DONE : 0));
	CHECK(wire_load64(bytes + 8) == request->cookie);
	chunk.type = wire_load16(bytes + 6);
	if (extended)
		CHECK(wire_load64(bytes + 16) == request->offset);
	chunk.length = extended ? wire_load64(bytes + 24) : wire_load32(bytes + 16);
	CHECK(chunk.length == size - head + behind);
	chunk.payload = bytes + head;
	return chunk;
}

static void
check_done(const struct nbd_session *session, const struct nbd_request *request)
{
	uint8_t bytes[NBD_REPLY_DONE_MAX];
	size_t size = nbd_reply_done(session, request, bytes);

	CHECK(size <= sizeof(bytes));
	if (wire_load32(bytes) == NBD_SIMPLE_REPLY_MAGIC) {
		CHECK(session->form != NBD_FORM_EXTENDED);
		CHECK(session->form == NBD_FORM_SIMPLE || request->type != NBD_CMD_READ);
		check_simple(request, bytes, size, 0);
	} else {
		CHECK(check_chunk(session, request, bytes, size, true, 0).type ==
		      NBD_REPLY_TYPE_NONE);
	}
}

static void
check_error(const struct nbd_session *session, const struct nbd_request *request,
	    enum nbd_error error, const char *message, bool placed)
{
	uint8_t bytes[NBD_REPLY_ERROR_MAX];
	uint64_t place = request->offset + (placed ? request->length / 2 : 0);
	size_t size = placed ? nbd_reply_error_at(session, request, error, message, place, bytes)
			     : nbd_reply_error(session, request, error, message, bytes);
	struct chunk chunk;
	size_t text;

	CHECK(size <= sizeof(bytes));
	if (session->form == NBD_FORM_SIMPLE) {
		check_simple(request, bytes, size, error);
		return;
	}
	chunk = check_chunk(session, request, bytes, size, true, 0);
	CHECK(chunk.type == (placed ? NBD_REPLY_TYPE_ERROR_OFFSET : NBD_REPLY_TYPE_ERROR));
	CHECK(wire_load32(chunk.payload) == error);
	text = wire_load16(chunk.payload + 4);
	CHECK(text <= NBD_MESSAGE_MAX && !memcmp(chunk.payload + 6, message, text));
	CHECK(chunk.length == 6 + text + (placed ? 8 : 0));
	if (placed)
		CHECK(wire_load64(chunk.payload + 6 + text) == place);
}

/* A read, replied to in two parts where it may be: data and a hole. */
static void
check_read(const struct nbd_session *session, const struct nbd_request *request)
{
	uint32_t length = (uint32_t)request->length;
	bool split = session->form != NBD_FORM_SIMPLE && !(request->flags & NBD_CMD_FLAG_DF) &&
		     length > 1;
	uint32_t first = split ? length / 2 : length;
	uint8_t bytes[NBD_REPLY_MAX];
	struct chunk chunk;
	size_t size = nbd_reply_data(session, request, request->offset, first, !split, bytes);

	CHECK(size <= NBD_REPLY_DATA_MAX);
	if (session->form == NBD_FORM_SIMPLE) {
		check_simple(request, bytes, size, 0);
		return;
	}
	chunk = check_chunk(session, request, bytes, size, !split, first);
	CHECK(chunk.type == NBD_REPLY_TYPE_OFFSET_DATA &&
	      wire_load64(chunk.payload) == request->offset);
	if (!split)
		return;
	size = nbd_reply_hole(session, request, request->offset + first, length - first, true,
			      bytes);
	CHECK(size <= NBD_REPLY_HOLE_MAX);
	chunk = check_chunk(session, request, bytes, size, true, 0);
	CHECK(chunk.type == NBD_REPLY_TYPE_OFFSET_HOLE && chunk.length == 12);
	CHECK(wire_load64(chunk.payload) == request->offset + first);
	CHECK(wire_load32(chunk.payload + 8) == length - first);
}

/* Adds extents whose lengths and flags come from `data`, and checks the list. */
static void
check_status(const struct nbd_session *session, const struct nbd_request *request,
	     const uint8_t *data, size_t size, size_t room)
{
	bool extended = session->form == NBD_FORM_EXTENDED;
	size_t entry = extended ? 16 : 8, head = extended ? 8 : 4;
	uint8_t *bytes = malloc(NBD_REPLY_STATUS_MAX(room));
	uint64_t covered = 0, before = UINT64_MAX;
	struct nbd_status status;
	struct chunk chunk;
	size_t count;

	CHECK(bytes);
	nbd_status_init(&status, session, request, bytes, NBD_REPLY_STATUS_MAX(room));
	for (; size >= 3; data += 3, size -= 3) {
		uint64_t length = ((uint64_t)wire_load16(data) << (data[2] >> 2) % 56) + 1;

		/* False is advice: to go on must do no harm. */
		(void)nbd_status_add(&status, length, data[2] & 3);
	}
	chunk = check_chunk(session, request, bytes, nbd_status_finish(&status), true, 0);
	CHECK(chunk.type ==
	      (extended ? NBD_REPLY_TYPE_BLOCK_STATUS_EXT : NBD_REPLY_TYPE_BLOCK_STATUS));
	CHECK(chunk.length > head && (chunk.length - head) % entry == 0);
	count = (chunk.length - head) / entry;
	CHECK(wire_load32(chunk.payload) == NBD_ALLOCATION_ID);
	CHECK(!extended || wire_load32(chunk.payload + 4) == count);
	CHECK(count == 1 || !(request->flags & NBD_CMD_FLAG_REQ_ONE));
	for (size_t i = 0; i < count; i++) {
		const uint8_t *extent = chunk.payload + head + i * entry;
		uint64_t length = extended ? wire_load64(extent) : wire_load32(extent);
		uint64_t flags = extended ? wire_load64(extent + 8) : wire_load32(extent + 4);

		CHECK(length && length <= request->length - covered && flags <= 3 &&
		      flags != before);
		covered += length;
		before = flags;
		CHECK(covered == request->length ||
		      (request->offset + covered) % session->min_block == 0 || i == count - 1);
	}
	free(bytes);
}

static void
check_request(const struct nbd_session *session, const struct nbd_request *request, uint8_t choice,
	      const uint8_t *rest, size_t size)
{
	static const int results[] = {-EPERM,      -EIO,    -ENOSPC,    -EOVERFLOW,
				      -EOPNOTSUPP, -ENOMEM, -ESHUTDOWN, -EINVAL};
	struct nbd_check check;

	switch (nbd_request_check(session, request, &check)) {
	case NBD_VERDICT_SERVE:
		check_served(session, request, &check);
		check_error(session, request, nbd_reply_errno(request, results[choice % 8]),
			    "it failed", request->length && choice & 8);
		if (request->type == NBD_CMD_READ)
			check_read(session, request);
		else if (request->type == NBD_CMD_BLOCK_STATUS)
			check_status(session, request, rest, size, 1 + choice % 16);
		else
			check_done(session, request);
		break;
	case NBD_VERDICT_NOTHING:
		CHECK(!check.payload && !request->length);
		check_done(session, request);
		break;
	case NBD_VERDICT_REFUSE:
		CHECK(check.error != NBD_SUCCESS && check.message);
		CHECK(check.payload <= UINT32_MAX);
		check_error(session, request, check.error, check.message, false);
		break;
	case NBD_VERDICT_DROP: CHECK(check.message); break;
	case NBD_VERDICT_DISCONNECT: CHECK(request->type == NBD_CMD_DISC); break;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct nbd_session session;
	uint32_t magic;
	size_t header;

	if (size < SETUP)
		return 0;
	session_init(&session, data);
	magic = session.form == NBD_FORM_EXTENDED ? NBD_EXTENDED_REQUEST_MAGIC : NBD_REQUEST_MAGIC;
	header = nbd_request_size(&session);
	for (data += SETUP, size -= SETUP; size > header; data += header + 1, size -= header + 1) {
		uint8_t copy[NBD_REQUEST_HEADER_MAX];
		struct nbd_request request;

		memcpy(copy, data, header);
		CHECK((nbd_request_decode(&session, copy, &request) == 0) ==
		      (wire_load32(copy) == magic));
		/* The magic is nothing to guess. */
		wire_store32(copy, magic);
		CHECK(nbd_request_decode(&session, copy, &request) == 0);
		request.type %= 16;
		check_request(&session, &request, data[header], data + header + 1,
			      size - header - 1);
	}
	return 0;
}
