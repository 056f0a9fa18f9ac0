/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A request of a client, from its header to the last byte of its reply.
 *
 * Adjacent reads of a batch are merged, and so are adjacent writes: the first request leads, and
 * has the buffer and the io; each has its own reply.
 */
#ifndef SERVER_REQUEST_REQUEST_STATE_H
#define SERVER_REQUEST_REQUEST_STATE_H

#include "server/memory/buffers.h"

#include "common/container_of.h"
#include "engine/io/helpers.h"
#include "engine/io/io.h"
#include "nbd/reply.h"
#include "nbd/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conn;

/* Parts of a reply with holes: enough for two holes between data. */
#define REQUEST_PARTS 5

struct request_part {
	uint32_t length; /* bytes of the image */
	bool hole;
	size_t head_length;
};

/* Of a read with early data, see early.h: offsets in the request, in bytes. */
struct early_span {
	uint32_t start, end;
};

/* Most spans that are there after a gap: as many as chunks arrive early. */
#define EARLY_GAPS 8

struct request_early {
	uint32_t there; /* bytes from the beginning that have arrived in the buffer */
	uint32_t sent;  /* those of them that are sent, or in a send in flight */
	unsigned int gap_count;
	struct early_span after_gap[EARLY_GAPS]; /* others that have arrived, in any order */
	bool listed;                             /* in conn->early */
	struct request *next;                    /* in that list */
};

struct request {
	struct io io; /* the leader's; each member's, when a failed merged one is tried again */
	struct helper_job job; /* work that waits for a file system and is no io */
	void (*holes_found)(struct request *request);
	struct conn *conn;
	struct nbd_request nbd;
	struct request *leader; /* the request itself if it is not merged */
	struct request *member; /* the next one of the merged requests */
	struct request *next;   /* in a list of the connection or of the worker */
	struct buffer buffer;   /* the leader's */
	uint64_t begun;         /* worker_now(), ns: when all of it had arrived */
	unsigned int users;     /* the leader's: members whose replies are not sent */
	char *data;             /* its part of the leader's buffer */
	int result;             /* 0 or -errno of the image, then the reply's */
	size_t data_length;     /* bytes that follow the header of the reply */
	size_t head_length;
	struct request_part parts[REQUEST_PARTS]; /* with the holes of a read */
	bool dense;                               /* the image has no holes at all */
	uint64_t data_end;       /* of the image: no hole is before it; 0: there is */
	unsigned int part_count; /* 0: the reply is a header, and data if there is some */
	uint8_t head[NBD_REPLY_MAX];
	struct request_early early; /* set by early_begin() only */
};

static inline struct request *
request_of_io(struct io *io)
{
	return container_of(io, struct request, io);
}

static inline struct request *
request_of_job(struct helper_job *job)
{
	return container_of(job, struct request, job);
}

#endif
