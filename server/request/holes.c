/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/request/holes.h"

#include "server/request/request.h"

#include "engine/image/extent.h"
#include "engine/image/image.h"

/* Bytes of a read, and of a hole in it, from which on a search costs less than copying zeroes. */
#define LARGE_READ ((uint32_t)64 << 10)
#define LARGE_HOLE ((uint64_t)32 << 10)

/* Large reads after which the knowledge about an image is forgotten. */
#define READS_PER_LOOK 1024

_Static_assert(REQUEST_PARTS *NBD_REPLY_HOLE_MAX <= NBD_REPLY_MAX,
	       "no room for the headers of all parts");

/* If holes were made since, they are read as data, which only costs time. */
static bool
holes_is_known_data(struct holes_known *known, const struct nbd_request *nbd)
{
	if (known->large_reads++ % READS_PER_LOOK == 0) {
		known->dense = false;
		known->data_start = known->data_end = 0;
	}
	return known->dense ||
	       (nbd->offset >= known->data_start && nbd->offset + nbd->length <= known->data_end);
}

bool
holes_worth_finding(struct request_queue *queue, const struct nbd_request *nbd)
{
	return nbd->length >= LARGE_READ && nbd->type == NBD_CMD_READ &&
	       queue->session.form != NBD_FORM_SIMPLE && !(nbd->flags & NBD_CMD_FLAG_DF) &&
	       image_has_holes(queue->image) && !holes_is_known_data(queue->holes, nbd);
}

/* Appends `length` bytes, or makes the last part longer. */
static void
holes_append(struct request *request, uint64_t length, bool hole)
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

/* Stops before the last part, which must stay free for data. */
static int
holes_add_extent(void *data, uint64_t offset, uint64_t length, bool hole)
{
	struct request *request = data;
	uint64_t block = request->queue->session.min_block ? request->queue->session.min_block : 1;
	uint64_t from = (offset + block - 1) / block * block,
		 to = (offset + length) / block * block;

	if (!hole || to < from + LARGE_HOLE) {
		holes_append(request, length, false);
		return 0;
	}
	holes_append(request, from - offset, false);
	holes_append(request, to - from, true);
	holes_append(request, offset + length - to, false);
	return request->part_count + 3 > REQUEST_PARTS;
}

static int
holes_note_data(void *data, uint64_t offset, uint64_t length, bool hole)
{
	struct request *request = data;

	if (!hole && length >= request->nbd.length)
		request->data_end = offset + length;
	return 0;
}

/* Finds how far the data reaches, for later reads: most are sequential, and of data. */
static bool
holes_is_data(struct image *image, struct request *request)
{
	const struct nbd_request *nbd = &request->nbd;
	uint64_t size = image_size(image);

	if (nbd->offset < size)
		extents_visit(image, nbd->offset, size - nbd->offset, true, holes_note_data,
			      request);
	return request->data_end > 0;
}

/* On a helper's thread. */
static void
holes_search(struct helper_job *job)
{
	struct request *request = request_of_job(job);
	struct image *image = request->queue->image;
	const struct nbd_request *nbd = &request->nbd;
	uint64_t found = 0;

	request->dense = !extents_have_holes(image);
	request->data_end = 0;
	if (request->dense || holes_is_data(image, request))
		return;
	/* If it fails, the extents found until then are still right. */
	extents_visit(image, nbd->offset, nbd->length, false, holes_add_extent, request);
	for (unsigned int i = 0; i < request->part_count; i++)
		found += request->parts[i].length;
	holes_append(request, nbd->length - found, false);
	/* Adjacent data is one part, so this is a read without a hole. */
	if (request->part_count == 1 && !request->parts[0].hole)
		request->part_count = 0;
}

static void
holes_remember(struct helper_job *job)
{
	struct request *request = request_of_job(job);
	struct holes_known *known = request->queue->holes;

	known->dense = request->dense;
	if (request->data_end > 0) {
		known->data_start = request->nbd.offset;
		known->data_end = request->data_end;
	}
	request->holes_found(request);
}

void
holes_find(struct request *request, void (*holes_found)(struct request *request))
{
	request->holes_found = holes_found;
	request_ask_helper(request, holes_search, holes_remember);
}

void
holes_reply(struct request *request)
{
	const struct nbd_session *session = &request->queue->session;
	uint64_t offset = request->nbd.offset;

	request->head_length = 0;
	for (unsigned int i = 0; i < request->part_count; i++) {
		struct request_part *part = &request->parts[i];
		bool last = i + 1 == request->part_count;
		uint8_t *out = request->head + request->head_length;

		part->head_length = part->hole ? nbd_reply_hole(session, &request->nbd, offset,
								part->length, last, out)
					       : nbd_reply_data(session, &request->nbd, offset,
								part->length, last, out);
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
