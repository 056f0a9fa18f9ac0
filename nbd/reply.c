/* SPDX-License-Identifier: BSD-3-Clause */
#include "nbd/reply.h"

#include "nbd/text.h"
#include "nbd/wire.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum nbd_error
nbd_reply_errno(const struct nbd_request *request, int result)
{
	assert(result <= 0);
	switch (-result) {
	case 0: return NBD_SUCCESS;
	case EPERM:
	case EACCES:
	case EROFS: return NBD_EPERM;
	case ENOMEM: return NBD_ENOMEM;
	case EINVAL: return NBD_EINVAL;
	case ENOSPC:
	case EDQUOT:
	case EFBIG: return NBD_ENOSPC;
	case EOVERFLOW: return request->type == NBD_CMD_READ ? NBD_EOVERFLOW : NBD_EINVAL;
	case EOPNOTSUPP: return request->flags & NBD_CMD_FLAG_FAST_ZERO ? NBD_ENOTSUP : NBD_EINVAL;
	case ESHUTDOWN: return NBD_ESHUTDOWN;
	default: return NBD_EIO;
	}
}

static uint8_t *
put_simple(uint8_t *out, const struct nbd_request *request, enum nbd_error error)
{
	out = wire_store32(out, NBD_SIMPLE_REPLY_MAGIC);
	out = wire_store32(out, error);
	return wire_store64(out, request->cookie);
}

/* Writes the header of a chunk with `length` bytes of payload; last: it is the reply's last chunk.
 */
static uint8_t *
put_chunk(uint8_t *out, const struct nbd_session *session, const struct nbd_request *request,
	  uint16_t type, bool last, uint64_t length)
{
	bool extended = session->form == NBD_FORM_EXTENDED;

	assert(session->form != NBD_FORM_SIMPLE && length <= UINT32_MAX);
	out = wire_store32(out, extended ? NBD_EXTENDED_REPLY_MAGIC : NBD_STRUCTURED_REPLY_MAGIC);
	out = wire_store16(out, last ? NBD_REPLY_FLAG_DONE : 0);
	out = wire_store16(out, type);
	out = wire_store64(out, request->cookie);
	if (!extended)
		return wire_store32(out, (uint32_t)length);
	out = wire_store64(out, request->offset);
	return wire_store64(out, length);
}

static bool
is_part(const struct nbd_request *request, uint64_t offset, uint64_t length)
{
	return length && offset >= request->offset && length <= request->length &&
	       offset - request->offset <= request->length - length;
}

size_t
nbd_reply_done(const struct nbd_session *session, const struct nbd_request *request, uint8_t *out)
{
	bool simple = session->form == NBD_FORM_SIMPLE ||
		      (session->form == NBD_FORM_STRUCTURED && request->type != NBD_CMD_READ);
	const uint8_t *end =
		simple ? put_simple(out, request, NBD_SUCCESS)
		       : put_chunk(out, session, request, NBD_REPLY_TYPE_NONE, true, 0);

	return (size_t)(end - out);
}

size_t
nbd_reply_data(const struct nbd_session *session, const struct nbd_request *request,
	       uint64_t offset, uint32_t length, bool last, uint8_t *out)
{
	uint8_t *end;

	assert(is_part(request, offset, length));
	if (session->form == NBD_FORM_SIMPLE) {
		assert(length == request->length);
		return (size_t)(put_simple(out, request, NBD_SUCCESS) - out);
	}
	end = put_chunk(out, session, request, NBD_REPLY_TYPE_OFFSET_DATA, last,
			UINT64_C(8) + length);
	return (size_t)(wire_store64(end, offset) - out);
}

size_t
nbd_reply_hole(const struct nbd_session *session, const struct nbd_request *request,
	       uint64_t offset, uint32_t length, bool last, uint8_t *out)
{
	uint8_t *end;

	assert(is_part(request, offset, length) && !(request->flags & NBD_CMD_FLAG_DF));
	end = put_chunk(out, session, request, NBD_REPLY_TYPE_OFFSET_HOLE, last, 12);
	end = wire_store64(end, offset);
	return (size_t)(wire_store32(end, length) - out);
}

/* Writes an error. place: its offset; NULL: it has none. */
static size_t
put_error(const struct nbd_session *session, const struct nbd_request *request,
	  enum nbd_error error, const char *message, const uint64_t *place, uint8_t *out)
{
	size_t length = message ? nbd_text_cut(message, NBD_MESSAGE_MAX) : 0;
	uint16_t type = place ? NBD_REPLY_TYPE_ERROR_OFFSET : NBD_REPLY_TYPE_ERROR;
	uint8_t *end;

	assert(error != NBD_SUCCESS);
	if (session->form == NBD_FORM_SIMPLE)
		return (size_t)(put_simple(out, request, error) - out);
	end = put_chunk(out, session, request, type, true, 6 + length + (place ? 8 : 0));
	end = wire_store32(end, error);
	end = wire_store16(end, (uint16_t)length);
	if (length)
		memcpy(end, message, length);
	end += length;
	if (place)
		end = wire_store64(end, *place);
	return (size_t)(end - out);
}

size_t
nbd_reply_error(const struct nbd_session *session, const struct nbd_request *request,
		enum nbd_error error, const char *message, uint8_t *out)
{
	return put_error(session, request, error, message, NULL, out);
}

size_t
nbd_reply_error_at(const struct nbd_session *session, const struct nbd_request *request,
		   enum nbd_error error, const char *message, uint64_t offset, uint8_t *out)
{
	assert(is_part(request, offset, 1));
	return put_error(session, request, error, message, &offset, out);
}

/* ---- Lists of extents */

static bool
is_extended(const struct nbd_status *status)
{
	return status->session->form == NBD_FORM_EXTENDED;
}

/* Bytes before the extents: the header, the id of the context and, in the extended form, the number
 * of extents. */
static size_t
status_head(const struct nbd_status *status)
{
	return is_extended(status) ? NBD_EXTENDED_REPLY_SIZE + 8 : NBD_STRUCTURED_REPLY_SIZE + 4;
}

static size_t
extent_size(const struct nbd_status *status)
{
	return is_extended(status) ? 16 : 8;
}

void
nbd_status_init(struct nbd_status *status, const struct nbd_session *session,
		const struct nbd_request *request, uint8_t *bytes, size_t size)
{
	size_t limit;

	*status = (struct nbd_status){.id = NBD_ALLOCATION_ID,
				      .last = true,
				      .session = session,
				      .request = request,
				      .bytes = bytes};
	assert(session->form != NBD_FORM_SIMPLE && request->length &&
	       size >= NBD_REPLY_STATUS_MAX(1));
	/* So that the length of each extent fits in the 32 bits of the structured form. */
	assert(is_extended(status) || request->length <= UINT32_MAX);
	limit = (size - status_head(status)) / extent_size(status);
	if (limit > NBD_EXTENTS_MAX)
		limit = NBD_EXTENTS_MAX;
	status->limit = request->flags & NBD_CMD_FLAG_REQ_ONE ? 1 : (uint32_t)limit;
}

/* Writes an extent, or extends the last one. Returns false if the list is full. */
static bool
put_extent(struct nbd_status *status, uint64_t length, uint32_t flags)
{
	uint8_t *place;

	if (status->count && status->flags == flags) {
		status->length += length;
	} else {
		if (status->count == status->limit) {
			status->covered = status->request->length; /* ignore further extents */
			return false;
		}
		status->count++;
		status->length = length;
		status->flags = flags;
	}
	place = status->bytes + status_head(status) + (status->count - 1) * extent_size(status);
	if (is_extended(status))
		wire_store64(wire_store64(place, status->length), flags);
	else
		wire_store32(wire_store32(place, (uint32_t)status->length), flags);
	return true;
}

/* Ends the block that isn't complete yet, if there is one. */
static bool
put_block(struct nbd_status *status)
{
	uint32_t length = status->block;

	status->block = 0;
	return !length || put_extent(status, length, status->block_flags);
}

/* Adds a part of the block that isn't complete yet. */
static void
add_to_block(struct nbd_status *status, uint32_t length, uint32_t flags)
{
	if (!status->block)
		status->block_flags = flags;
	else if (status->id == NBD_ALLOCATION_ID)
		status->block_flags &= flags;
	else
		status->block_flags |= flags;
	status->block += length;
}

bool
nbd_status_add(struct nbd_status *status, uint64_t length, uint32_t flags)
{
	uint64_t left = status->request->length - status->covered;
	uint32_t block = status->session->min_block ? status->session->min_block : 1;

	if (length > left)
		length = left;
	while (length) {
		uint32_t inside =
			(uint32_t)((status->request->offset + status->covered) & (block - 1));
		uint64_t part = length & ~(uint64_t)(block - 1);

		if (inside || !part) {
			/* Only a part of a block, which may also hold parts of the extents before
			 * and after. */
			part = length < block - inside ? length : block - inside;
			add_to_block(status, (uint32_t)part, flags);
			if (inside + part == block && !put_block(status))
				return false;
		} else if (!put_extent(status, part, flags)) {
			return false;
		}
		status->covered += part;
		length -= part;
	}
	return status->covered < status->request->length;
}

size_t
nbd_status_finish(struct nbd_status *status)
{
	uint16_t type =
		is_extended(status) ? NBD_REPLY_TYPE_BLOCK_STATUS_EXT : NBD_REPLY_TYPE_BLOCK_STATUS;
	uint8_t *place;
	size_t length;

	if (!status->covered)
		put_extent(status, status->request->length, 0);
	put_block(status);
	length = status_head(status) + status->count * extent_size(status);
	place = put_chunk(status->bytes, status->session, status->request, type, status->last,
			  length - (is_extended(status) ? NBD_EXTENDED_REPLY_SIZE
							: NBD_STRUCTURED_REPLY_SIZE));
	place = wire_store32(place, status->id);
	if (is_extended(status))
		wire_store32(place, status->count);
	return length;
}
