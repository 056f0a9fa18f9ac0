/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replies in the session's form ("Simple reply message", "Structured reply chunk message",
 * "Extended reply chunk message"), written to the caller's buffer: headers, errors and lists of
 * extents. The data of a read are never copied here: the caller sends them from their own buffer
 * after the header. Each function returns the number of bytes that it wrote.
 */
#ifndef NBD_REPLY_H
#define NBD_REPLY_H

#include "nbd/protocol.h"
#include "nbd/request.h"
#include "nbd/session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Longest text in an error chunk, in bytes; a longer one is cut between characters. */
#define NBD_MESSAGE_MAX 200

/* The most bytes that each function below writes, in any form. */
#define NBD_REPLY_DONE_MAX  NBD_EXTENDED_REPLY_SIZE
#define NBD_REPLY_DATA_MAX  (NBD_EXTENDED_REPLY_SIZE + 8)
#define NBD_REPLY_HOLE_MAX  (NBD_EXTENDED_REPLY_SIZE + 12)
#define NBD_REPLY_ERROR_MAX (NBD_EXTENDED_REPLY_SIZE + 6 + NBD_MESSAGE_MAX + 8)
/* The largest of the four above: the size of a slot that holds the only reply to a request. */
#define NBD_REPLY_MAX NBD_REPLY_ERROR_MAX
/* Bytes of a list of n extents. */
#define NBD_REPLY_STATUS_MAX(n) (NBD_EXTENDED_REPLY_SIZE + 8 + 16 * (size_t)(n))

/* Converts a result of the engine (0 or a negative errno) to the error that the client gets.
 * NBD_ENOTSUP is only used for fast zeroes and NBD_EOVERFLOW only for reads, as "Error values"
 * demands; an unknown errno becomes NBD_EIO. */
enum nbd_error
nbd_reply_errno(const struct nbd_request *request, int result);

/* Success, without data or with no further data: the end of the reply. */
size_t
nbd_reply_done(const struct nbd_session *session, const struct nbd_request *request, uint8_t *out);

/*
 * READ: the header of `length` (> 0) bytes of data at `offset` of the export; the caller must send
 * the data after it. `last`: this ends the reply, and neither data nor an error may follow. In
 * the simple form the data must be the whole range of the request.
 */
size_t
nbd_reply_data(const struct nbd_session *session, const struct nbd_request *request,
	       uint64_t offset, uint32_t length, bool last, uint8_t *out);

/* READ: `length` (> 0) bytes at `offset` of the export are zeroes. Not allowed in the simple form,
 * nor for a request with NBD_CMD_FLAG_DF. */
size_t
nbd_reply_hole(const struct nbd_session *session, const struct nbd_request *request,
	       uint64_t offset, uint32_t length, bool last, uint8_t *out);

/* Failure: the end of the reply. error is not NBD_SUCCESS; message is UTF-8, or NULL for none. */
size_t
nbd_reply_error(const struct nbd_session *session, const struct nbd_request *request,
		enum nbd_error error, const char *message, uint8_t *out);

/* The same with the place of the error: an offset in the request's range. Not for FLUSH, which has
 * no range. */
size_t
nbd_reply_error_at(const struct nbd_session *session, const struct nbd_request *request,
		   enum nbd_error error, const char *message, uint64_t offset, uint8_t *out);

/*
 * BLOCK_STATUS: a list of extents that begins at the request's offset. Private, except that its
 * user calls the functions below in this order:
 *
 *	nbd_status_init(&status, session, request, bytes, size);
 *	while (more && nbd_status_add(&status, length, flags)) ...
 *	length = nbd_status_finish(&status);
 *
 * A reply has a list for each selected context, one after the other. nbd_status_init() presets .id
 * and .last for a client that selected base:allocation only; for others, the caller sets them
 * before it adds an extent.
 */
struct nbd_status {
	uint32_t id; /* of the context: NBD_ALLOCATION_ID or a dirty bitmap's */
	bool last;   /* this list ends the reply */
	const struct nbd_session *session;
	const struct nbd_request *request;
	uint8_t *bytes;
	uint32_t limit;       /* extents that the buffer can hold and the reply may have */
	uint32_t count;       /* extents written */
	uint64_t length;      /* bytes of the last extent, which may grow */
	uint32_t flags;       /* of the last extent */
	uint64_t covered;     /* bytes added so far, those in .block included */
	uint32_t block;       /* bytes of a block that isn't complete yet ... */
	uint32_t block_flags; /* ... and its flags so far */
};

/* Begins a list in the caller's buffer of `size` bytes, at least NBD_REPLY_STATUS_MAX(1). Session,
 * request and buffer must stay valid until nbd_status_finish(). */
void
nbd_status_init(struct nbd_status *status, const struct nbd_session *session,
		const struct nbd_request *request, uint8_t *bytes, size_t size);

/*
 * Adds an extent of `length` bytes (flags: NBD_STATE_*; 0 is plain data, or not changed). Joins it
 * to the extent before if that has equal flags, cuts it at the end of the request's range, and
 * rounds its ends to blocks of session->min_block bytes: a block with several kinds of data gets
 * the flags that all of them have, and is dirty if a part of it is. Returns whether more may be
 * added. False is no failure: the range is covered, the buffer is full, or the request asked for
 * one extent (NBD_CMD_FLAG_REQ_ONE) and this is another.
 */
bool
nbd_status_add(struct nbd_status *status, uint64_t length, uint32_t flags);

/* Completes the list and writes its header. If nothing was added, the whole range is reported as
 * data. Returns the size of the list with its header, in bytes. */
size_t
nbd_status_finish(struct nbd_status *status);

#endif
