/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/holes.h"

#include "server/conn.h"
#include "server/request.h"
#include "server/served.h"
#include "server/worker.h"

#include "engine/extent.h"

/* Bytes of a read, and of a hole in it, for which looking costs less than copying zeroes. */
#define LARGE_READ ((uint32_t)64 << 10)
#define LARGE_HOLE ((uint64_t)32 << 10)

/* Whether an image is sparse is asked once in so many large reads. */
#define READS_PER_LOOK 1024

_Static_assert(REQUEST_PARTS * NBD_REPLY_HOLE_MAX <= NBD_REPLY_MAX, "no room for the headers of all parts");

static bool
is_sparse(struct worker_context *context)
{
	if (context->large_reads++ % READS_PER_LOOK == 0)
		context->sparse = extents_have_holes(context->served->image);
	return context->sparse;
}

bool
holes_worth_finding(struct worker_context *context, const struct nbd_session *session, const struct nbd_request *nbd)
{
	return nbd->length >= LARGE_READ && nbd->type == NBD_CMD_READ && session->form != NBD_FORM_SIMPLE &&
	       !(nbd->flags & NBD_CMD_FLAG_DF) && is_sparse(context);
}

/* Appends `length` bytes, or makes the last part longer. */
static void
append(struct request *request, uint64_t length, bool hole)
{
	struct request_part *last = &request->parts[request->part_count];

	if (!length)
		return;
	if (request->part_count > 0 && last[-1].hole == hole) {
		last[-1].length += (uint32_t)length;
		return;
	}
	*last = (struct request_part){.length = (uint32_t)length, .hole = hole};
	request->part_count++;
}

/* The last part is for data, whatever comes. */
static int
add_extent(void *data, uint64_t offset, uint64_t length, bool hole)
{
	struct request *request = data;
	uint64_t block = request->conn->session.min_block ? request->conn->session.min_block : 1;
	uint64_t from = (offset + block - 1) / block * block, to = (offset + length) / block * block;

	if (!hole || to < from + LARGE_HOLE) {
		append(request, length, false);
		return 0;
	}
	append(request, from - offset, false);
	append(request, to - from, true);
	append(request, offset + length - to, false);
	return request->part_count + 3 > REQUEST_PARTS;
}

static bool
has_hole(const struct request *request)
{
	for (unsigned int i = 0; i < request->part_count; i++) {
		if (request->parts[i].hole)
			return true;
	}
	return false;
}

void
holes_find(struct request *request)
{
	const struct nbd_request *nbd = &request->nbd;
	uint64_t found = 0;

	/* If it fails, what was found before is true. */
	extents_visit(request->conn->served->image, nbd->offset, nbd->length, false, add_extent, request);
	for (unsigned int i = 0; i < request->part_count; i++)
		found += request->parts[i].length;
	append(request, nbd->length - found, false);
	if (!has_hole(request))
		request->part_count = 0;
}

bool
holes_only(const struct request *request)
{
	return request->part_count == 1;
}

void
holes_reply(struct request *request)
{
	const struct nbd_session *session = &request->conn->session;
	uint64_t offset = request->nbd.offset;

	request->head_length = 0;
	for (unsigned int i = 0; i < request->part_count; i++) {
		struct request_part *part = &request->parts[i];
		bool last = i + 1 == request->part_count;
		uint8_t *out = request->head + request->head_length;

		part->head_length = part->hole ? nbd_reply_hole(session, &request->nbd, offset, part->length, last, out) :
						 nbd_reply_data(session, &request->nbd, offset, part->length, last, out);
		request->head_length += part->head_length;
		offset += part->length;
	}
}

unsigned int
holes_gather(struct request *request, struct iovec *iov)
{
	uint8_t *head = request->head;
	char *data = request->data;
	unsigned int count = 0;

	for (unsigned int i = 0; i < request->part_count; i++) {
		const struct request_part *part = &request->parts[i];

		iov[count++] = (struct iovec){head, part->head_length};
		if (!part->hole)
			iov[count++] = (struct iovec){data, part->length};
		head += part->head_length;
		if (data)
			data += part->length;
	}
	return count;
}
