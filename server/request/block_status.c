/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/request/block_status.h"

#include "server/request/reply.h"
#include "server/request/request.h"

#include "common/log.h"
#include "engine/changes/checkpoint.h"
#include "engine/image/extent.h"
#include "engine/image/image_status.h"

#include <errno.h>
#include <string.h>

/* Bytes for the extents of one reply: 1,000 or 2,000 extents, by the form of replies. */
#define STATUS_SIZE ((size_t)16 << 10)

static int
block_status_add_extent(void *data, uint64_t offset, uint64_t length, bool hole)
{
	struct nbd_status *status = data;
	bool more = nbd_status_add(status, length, hole ? NBD_STATE_HOLE | NBD_STATE_ZERO : 0);

	(void)offset;
	/* If the client asks for one extent, the first is enough, unless it ends within a block. */
	return more && (status->block || !(status->request->flags & NBD_CMD_FLAG_REQ_ONE)) ? 0 : 1;
}

static void
block_status_log_failure(struct image *image, const struct nbd_request *nbd, int err)
{
	static struct log_limit limit = LOG_LIMIT_INIT(10, 10);
	struct image_status facts;
	unsigned int suppressed;
	char more[LOG_LEFT_OUT];

	if (!log_limit_pass(&limit, &suppressed))
		return;
	image_status(image, &facts);
	log_error("%s: extents of %llu bytes at offset %llu failed: %s%s", facts.path,
		  (unsigned long long)nbd->length, (unsigned long long)nbd->offset, strerror(-err),
		  log_left_out(suppressed, more));
}

static int
block_status_add_run(void *data, uint64_t offset, uint64_t length, bool changed)
{
	(void)offset;
	return nbd_status_add(data, length, changed ? NBD_STATE_DIRTY : 0) ? 0 : 1;
}

/* Lists what has changed since the checkpoint with the id of the list. As checkpoint_visit(). */
static int
block_status_add_changes(struct checkpoints *set, struct nbd_status *status)
{
	struct checkpoint *checkpoint = checkpoint_hold(set, status->id);
	int r;

	if (!checkpoint)
		return -EIDRM;
	r = checkpoint_visit(checkpoint, status->request->offset, status->request->length,
			     block_status_add_run, status);
	checkpoint_release(checkpoint);
	return r;
}

/* Appends the list of a context to the reply. `left`: contexts that come after it. */
static int
block_status_find_list(struct request *request, uint32_t id, unsigned int left)
{
	struct request_queue *queue = request->queue;
	const struct nbd_request *nbd = &request->nbd;
	size_t room = (STATUS_SIZE - request->data_length) / (left + 1);
	struct nbd_status status;
	int r;

	nbd_status_init(&status, &queue->session, nbd,
			(uint8_t *)request->buffer.memory + request->data_length, room);
	status.id = id;
	status.last = !left;
	r = id == NBD_ALLOCATION_ID ? extents_visit(queue->image, nbd->offset, nbd->length, false,
						    block_status_add_extent, &status)
				    : block_status_add_changes(queue->checkpoints, &status);
	if (r >= 0)
		request->data_length += nbd_status_finish(&status);
	return r;
}

/* On a helper's thread. */
static void
block_status_work(struct helper_job *job)
{
	struct request *request = request_of_job(job);
	const struct nbd_session *session = &request->queue->session;
	int r = 0;

	request->data_length = 0;
	if (session->allocation)
		r = block_status_find_list(request, NBD_ALLOCATION_ID, session->bitmap_count);
	for (unsigned int i = 0; r >= 0 && i < session->bitmap_count; i++)
		r = block_status_find_list(request, session->bitmaps[i],
					   session->bitmap_count - 1 - i);
	request->result = r;
}

bool
block_status_find(struct request *request, void (*done)(struct helper_job *job))
{
	if (!request_take_buffer(request, STATUS_SIZE))
		return false;
	request_ask_helper(request, block_status_work, done);
	return true;
}

void
block_status_reply(struct request *request)
{
	int r = request->result;

	if (r == -EIDRM) {
		reply_write_error(request, NBD_EINVAL, "the checkpoint has been deleted");
	} else if (r == -ENODATA) {
		reply_write_error(request, NBD_EINVAL,
				  "what has changed since the checkpoint is unknown: take a full "
				  "backup");
	} else if (r < 0) {
		block_status_log_failure(request->queue->image, &request->nbd, r);
		reply_write_error(request, nbd_reply_errno(&request->nbd, r), NULL);
	} else {
		request->result = 0;
		request->data = request->buffer.memory;
	}
}
