/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests: decodes their headers ("Request message") and applies the specification's rules to
 * them. All of these rules are here: code that serves a request which passed needs no checks of its
 * own.
 */
#ifndef NBD_REQUEST_H
#define NBD_REQUEST_H

#include "nbd/protocol.h"
#include "nbd/session.h"

#include <stddef.h>
#include <stdint.h>

struct nbd_request {
	uint64_t cookie; /* chosen by the client; the reply repeats it */
	uint64_t offset; /* bytes */
	uint64_t length; /* bytes of the export; with PAYLOAD_LEN, of the payload */
	uint16_t flags;  /* NBD_CMD_FLAG_* */
	uint16_t type;   /* enum nbd_cmd, or any unknown number */
};

/* Longest request header, in bytes. */
#define NBD_REQUEST_HEADER_MAX NBD_EXTENDED_REQUEST_SIZE

/* Bytes of a request header in this session. */
static inline size_t
nbd_request_size(const struct nbd_session *session)
{
	return session->form == NBD_FORM_EXTENDED ? NBD_EXTENDED_REQUEST_SIZE : NBD_REQUEST_SIZE;
}

/* Decodes a header of nbd_request_size() bytes. Returns 0, or -EPROTO: its magic is wrong, so the
 * beginning of the next request can't be found and the connection must be dropped. */
int
nbd_request_decode(const struct nbd_session *session, const uint8_t *bytes,
		   struct nbd_request *request);

enum nbd_verdict {
	/* Receive .payload bytes (the data to write), carry the request out, reply. */
	NBD_VERDICT_SERVE,
	/* The length is 0, so there is nothing to do: reply with success.  .payload is 0. */
	NBD_VERDICT_NOTHING,
	/* Receive and discard .payload bytes, reply with .error and .message. */
	NBD_VERDICT_REFUSE,
	/* NBD_CMD_DISC: finish the requests in flight, close the connection, send no reply. */
	NBD_VERDICT_DISCONNECT,
	/* The payload is too long to be received or discarded: drop the connection.  .message is
	 * for the log. */
	NBD_VERDICT_DROP,
};

struct nbd_check {
	uint64_t payload;     /* bytes that follow the header, whatever the verdict */
	enum nbd_error error; /* REFUSE: for the reply */
	const char *message;  /* static, for the reply or the log; NULL: none */
};

/*
 * Applies the rules to a request and fills in *check. Unaligned requests pass: the engine serves
 * them. TRIM, WRITE_ZEROES, CACHE and BLOCK_STATUS pass with any length inside the export (up to
 * 64 bits in the extended form), as they have no payload. READ and WRITE only pass if they are not
 * longer than session->max_payload.
 */
enum nbd_verdict
nbd_request_check(const struct nbd_session *session, const struct nbd_request *request,
		  struct nbd_check *check);

#endif
