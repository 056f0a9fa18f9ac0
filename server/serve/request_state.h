/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A request of a client, from its header to the last byte of its reply.
 *
 * Reads, and writes, that follow each other without a gap in one batch are merged: the first of
 * them leads, has the buffer and the operation; each has its own reply.
 */
#ifndef SERVER_SERVE_REQUEST_STATE_H
#define SERVER_SERVE_REQUEST_STATE_H

#include "server/serve/buffers.h"

#include "engine/io/helpers.h"
#include "engine/io/io.h"
#include "nbd/reply.h"
#include "nbd/request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conn;

/* Parts of a reply that tells holes: enough for two holes amid data. */
#define REQUEST_PARTS 5

struct request_part {
	uint32_t length; /* bytes of the image */
	bool hole;
	size_t head_length;
};

struct request {
	struct io io; /* of the leader; of each, when a merged one failed and is tried again */
	struct helper_job job; /* work that waits for a file system and is no io */
	void (*holes_found)(struct request *request);
	struct conn *conn;
	struct nbd_request nbd;
	struct request *leader; /* itself if it is alone */
	struct request *member; /* the next that is merged with it */
	struct request *next;   /* in a list of the connection or of the worker */
	struct buffer buffer;   /* the leader's */
	uint64_t begun;         /* worker_now(), ns: when all of it was there */
	unsigned int users;     /* the leader's: members whose replies are not sent */
	char *data;             /* its part of the leader's buffer */
	int result;             /* 0 or -errno: the image's, then what the client is told */
	size_t data_length;     /* bytes that follow the header of the reply */
	size_t head_length;
	struct request_part parts[REQUEST_PARTS]; /* with the holes of a read */
	bool dense;                               /* the image has no holes at all */
	uint64_t data_end;       /* of the image: no hole is before it; 0: there is */
	unsigned int part_count; /* 0: the reply is a header, and data if there is some */
	uint8_t head[NBD_REPLY_MAX];
};

static inline struct request *
request_of_job(struct helper_job *job)
{
	return (struct request *)((char *)job - offsetof(struct request, job));
}

#endif
