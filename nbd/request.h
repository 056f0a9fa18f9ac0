/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Requests: from the wire, and the specification's rules about what may be asked.  All of these
 * rules are here; whoever serves a request that passed needs none of its own.
 */
#ifndef NBD_REQUEST_H
#define NBD_REQUEST_H

#include "nbd/protocol.h"
#include "nbd/session.h"

#include <stddef.h>
#include <stdint.h>

struct nbd_request {
	uint64_t cookie; /* the client's; in the reply as it came */
	uint64_t offset;
	uint64_t length; /* bytes of the export; of the payload when that is all there is */
	uint16_t flags;  /* NBD_CMD_FLAG_* */
	uint16_t type;   /* enum nbd_cmd, or anything else */
};

/* Longest request header. */
#define NBD_REQUEST_HEADER_MAX NBD_EXTENDED_REQUEST_SIZE

/* Bytes of a request header in this session. */
static inline size_t
nbd_request_size(const struct nbd_session *session)
{
	return session->form == NBD_FORM_EXTENDED ? NBD_EXTENDED_REQUEST_SIZE : NBD_REQUEST_SIZE;
}

/* Decodes nbd_request_size() bytes.  Returns 0, or -EPROTO: no header, the streams are out of step
 * and the connection must be dropped. */
int
nbd_request_decode(const struct nbd_session *session, const uint8_t *bytes,
		   struct nbd_request *request);

enum nbd_verdict {
	/* Take .payload bytes (they are what to write), do it, reply. */
	NBD_VERDICT_SERVE,
	/* It asks for nothing (length 0): reply with success. .payload is 0. */
	NBD_VERDICT_NOTHING,
	/* Drop .payload bytes, reply with .error and .message. */
	NBD_VERDICT_REFUSE,
	/* NBD_CMD_DISC: finish what is under way, close, no reply. */
	NBD_VERDICT_DISCONNECT,
	/* The client broke a rule beyond repair: drop the connection; .message is for the log. */
	NBD_VERDICT_DROP,
};

struct nbd_check {
	uint64_t payload; /* bytes that follow the header, whatever the verdict */
	enum nbd_error error;
	const char *message; /* static; NULL: none */
};

/*
 * Judges a request.  Unaligned requests pass: the engine serves them.  So do TRIM, WRITE_ZEROES,
 * CACHE and BLOCK_STATUS of any length inside of the export (up to 64 bits in the extended form):
 * they have no payload. READ and WRITE that pass are not longer than session->max_payload.
 */
enum nbd_verdict
nbd_request_check(const struct nbd_session *session, const struct nbd_request *request,
		  struct nbd_check *check);

/* "read", "write", ..., "unknown command": for messages. */
const char *
nbd_request_name(const struct nbd_request *request);

#endif
