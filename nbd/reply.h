/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies in the session's form, written into the caller's buffer: the headers, the errors and the
 * lists of extents, but never the data of a read, which goes from where it is straight behind its
 * header.  Each returns how many bytes it wrote.
 */
#ifndef NBD_REPLY_H
#define NBD_REPLY_H

#include "nbd/protocol.h"
#include "nbd/request.h"
#include "nbd/session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest text in an error chunk; a longer one is cut (between characters). */
#define NBD_MESSAGE_MAX 200

/* What each function below writes at most, in any form. */
#define NBD_REPLY_DONE_MAX  NBD_EXTENDED_REPLY_SIZE
#define NBD_REPLY_DATA_MAX  (NBD_EXTENDED_REPLY_SIZE + 8)
#define NBD_REPLY_HOLE_MAX  (NBD_EXTENDED_REPLY_SIZE + 12)
#define NBD_REPLY_ERROR_MAX (NBD_EXTENDED_REPLY_SIZE + 6 + NBD_MESSAGE_MAX + 8)
/* The first three and the last of the above: for slots that hold the one reply of a request. */
#define NBD_REPLY_MAX NBD_REPLY_ERROR_MAX
/* A list of n extents. */
#define NBD_REPLY_STATUS_MAX(n) (NBD_EXTENDED_REPLY_SIZE + 8 + 16 * (size_t)(n))

/* What the client is told of a result of the engine's (0 or a negative errno). ENOTSUP is told for
 * fast zeroes and EOVERFLOW for reads only, as specified. */
enum nbd_error
nbd_reply_errno(const struct nbd_request *request, int result);

/* Success, without data (or with no further data): the end of the reply. */
size_t
nbd_reply_done(const struct nbd_session *session, const struct nbd_request *request, uint8_t *out);

/*
 * READ: the header in front of `length` (> 0) bytes of data from `offset`, which must follow.
 * `last`: nothing else will be said in reply to this request, no error either. In the simple form
 * the data must be all that was asked for.
 */
size_t
nbd_reply_data(const struct nbd_session *session, const struct nbd_request *request,
	       uint64_t offset, uint32_t length, bool last, uint8_t *out);

/* READ: `length` (> 0) bytes from `offset` are zeroes. Neither in the simple form nor for
 * NBD_CMD_FLAG_DF. */
size_t
nbd_reply_hole(const struct nbd_session *session, const struct nbd_request *request,
	       uint64_t offset, uint32_t length, bool last, uint8_t *out);

/* Failure: the end of the reply. error is not NBD_SUCCESS; message may be NULL. */
size_t
nbd_reply_error(const struct nbd_session *session, const struct nbd_request *request,
		enum nbd_error error, const char *message, uint8_t *out);

/* The same, telling where: an offset in the request's range. Not for FLUSH. */
size_t
nbd_reply_error_at(const struct nbd_session *session, const struct nbd_request *request,
		   enum nbd_error error, const char *message, uint64_t offset, uint8_t *out);

/*
 * BLOCK_STATUS: a list of extents from the request's offset on.
 *
 *	nbd_status_init(&status, session, request, bytes, size);
 *	while (more && nbd_status_add(&status, length, flags)) ...
 *	length = nbd_status_finish(&status);
 */
struct nbd_status {
	const struct nbd_session *session;
	const struct nbd_request *request;
	uint8_t *bytes;
	uint32_t limit;   /* extents that fit and may be sent */
	uint32_t count;   /* extents told */
	uint64_t length;  /* of the last extent, which may grow */
	uint32_t flags;   /* of the last extent */
	uint64_t covered; /* bytes added so far, with those of block */
	uint32_t block;   /* bytes of a block that isn't complete yet ... */
	uint32_t block_flags;
};

/* size: of the buffer, at least NBD_REPLY_STATUS_MAX(1). */
void
nbd_status_init(struct nbd_status *status, const struct nbd_session *session,
		const struct nbd_request *request, uint8_t *bytes, size_t size);

/*
 * Adds an extent (flags: NBD_STATE_*; 0 is plain data).  Joins it to one before with equal flags;
 * cuts it to what was asked for; lets it begin and end with a block of session->min_block bytes, a
 * block of several kinds having the flags common to all.  Returns whether more may be added: false
 * when the range is covered, the buffer is full, or one extent is all that was asked for and this
 * was another; that is no failure.
 */
bool
nbd_status_add(struct nbd_status *status, uint64_t length, uint32_t flags);

/* Writes the header: the end of the reply. If nothing was added, all of it is told as data. Returns
 * the bytes of the whole. */
size_t
nbd_status_finish(struct nbd_status *status);

#endif
