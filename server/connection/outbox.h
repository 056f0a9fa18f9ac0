/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a connection sends: replies that are ready, together at the end of a turn; early data of
 * large reads (dispatch.c) when no reply is ready; and what is in flight.
 */
#ifndef SERVER_CONNECTION_OUTBOX_H
#define SERVER_CONNECTION_OUTBOX_H

#include "server/connection/transport.h"
#include "server/request/request.h"

#include "nbd/reply.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

/* Most parts of replies in one send; most replies have one or two. */
#define OUTBOX_PARTS 128

/* The fewest bytes that are sent early at once: two chunks of the image (CHUNK_SIZE). A disk that
 * completes more than one chunk with an interrupt would else have a small part sent first, and the
 * rest after it. */
#define OUTBOX_EARLY ((uint32_t)256 << 10)

/* The most bytes and parts of replies that are sent quietly: their buffers may stay in use until
 * the next request comes, and among many replies the gain is small. */
#define OUTBOX_QUIET       ((size_t)128 << 10)
#define OUTBOX_QUIET_PARTS 32

struct outbox {
	struct request_list ready;     /* with a reply to send */
	struct request *sending;       /* list: their replies are in flight */
	struct request *early;         /* list of reads with early data to send */
	struct request *early_sending; /* the send in flight has data of it; or NULL */
	bool quiet;   /* the send in flight is quiet; its requests count as answered */
	bool unheard; /* no reply can be sent, but waiting changes are carried out: see peer_left()
		       */
	uint8_t early_head[NBD_REPLY_DATA_MAX];
	struct iovec parts[OUTBOX_PARTS];
};

/* Adds a written reply, and counts its request. */
void
outbox_add(struct outbox *outbox, struct request *request);

/* Adds a read whose first bytes have arrived, if it is not there; removes it, if it is. */
void
outbox_add_early(struct outbox *outbox, struct request *request);
void
outbox_remove_early(struct outbox *outbox, struct request *request);

/* Starts to send what is ready, unless something is in flight. If nothing can be sent any more,
 * finishes the requests whose replies were ready. `quietly`: nothing waits for the end of the send,
 * which may be noticed only when the next request comes. */
void
outbox_work(struct outbox *outbox, struct transport *transport, bool quietly);

static inline bool
outbox_has_work(const struct outbox *outbox, const struct transport *transport)
{
	return outbox->ready.first || outbox->early || transport->lost || outbox->unheard;
}

/* Finishes the requests whose replies were sent, or can't be. */
void
outbox_sent(struct outbox *outbox, const struct transport *transport);

/* Of a read with early data: the bytes that are there, and not sent. */
static inline uint32_t
outbox_unsent(const struct request *request)
{
	return request->early.there - request->early.sent;
}

#endif
