/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A request of a client, from its header to the last byte of its reply; the queue of the requests
 * of one connection; and the pool of a worker, from which they take their structures and buffers.
 *
 * Adjacent reads of a batch are merged, and so are adjacent writes: the first request leads, and
 * has the buffer and the io; each has its own reply.
 */
#ifndef SERVER_REQUEST_REQUEST_H
#define SERVER_REQUEST_REQUEST_H

#include "server/memory/buffers.h"
#include "server/request/traffic.h"

#include "common/container_of.h"
#include "engine/io/helpers.h"
#include "engine/io/io.h"
#include "nbd/reply.h"
#include "nbd/request.h"
#include "nbd/session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct checkpoints;
struct holes_known;
struct image;
struct ioctx;
struct request;
struct traffic;

/* What the requests on a worker's thread share. */
struct request_pool {
	struct buffers buffers;
	struct request *idle; /* structures that are not in use */
	struct request *slabs;
	uint64_t now; /* see request_now(); 0: not read yet */
};

uint64_t
request_read_clock(struct request_pool *pool);

/* CLOCK_BOOTTIME, ns: when the completions of this turn were found. The clock is read at most once
 * for all of them. */
static inline uint64_t
request_now(struct request_pool *pool)
{
	return __builtin_expect(pool->now != 0, 1) ? pool->now : request_read_clock(pool);
}

/* Requests in the order of their arrival, or of their replies. */
struct request_list {
	struct request *first, **end;
};

/* The requests of a connection, and their image. */
struct request_queue {
	struct request_pool *pool;
	struct ioctx *ctx;
	struct image *image;
	struct checkpoints *checkpoints; /* of the image; NULL: none */
	struct traffic *traffic;         /* its counters, this thread's */
	struct holes_known *holes;
	struct nbd_session session;
	uint64_t id;                      /* of the connection: unique in the process, from 1 */
	unsigned int in_flight;           /* their reply is not sent yet */
	unsigned int buffers;             /* of those requests */
	uint64_t read_bytes, write_bytes; /* of requests that succeeded */
	struct request_list hungry;       /* reads that wait for a buffer */
};

/* Parts of a reply with holes: enough for two holes between data. */
#define REQUEST_PARTS 5

struct request_part {
	uint32_t length; /* bytes of the image */
	bool hole;
	size_t head_length;
};

/* Of a read with early data, see dispatch.c: offsets in the request, in bytes. */
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
	bool listed;                             /* in the outbox */
	struct request *next;                    /* in that list */
};

struct request {
	struct io io; /* the leader's; each member's, when a failed merged one is tried again */
	struct helper_job job; /* work that waits for a file system and is no io */
	void (*holes_found)(struct request *request);
	struct request_queue *queue;
	struct nbd_request nbd;
	struct request *leader; /* the request itself if it is not merged */
	struct request *member; /* the next one of the merged requests */
	struct request *next;   /* in a request_list, or in the pool */
	struct buffer buffer;   /* the leader's */
	uint64_t begun;         /* request_now(), ns: when all of it had arrived */
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
	struct request_early early; /* set only for a read that may be early */
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

static inline void
request_list_init(struct request_list *list)
{
	list->first = NULL;
	list->end = &list->first;
}

static inline void
request_list_add(struct request_list *list, struct request *request)
{
	request->next = NULL;
	*list->end = request;
	list->end = &request->next;
}

/* Begins a request, which has no buffer yet. NULL: out of memory. */
struct request *
request_begin(struct request_queue *queue, const struct nbd_request *nbd);

/* Takes a buffer of `length` bytes. False: no memory now. A queue without a buffer gets one even if
 * others have taken all, since a client that never reads its replies keeps its buffers for ever. */
bool
request_take_buffer(struct request *request, size_t length);

/* Ends a request whose reply was sent, or can't be. The buffer is given back with the last member
 * of a merged request. */
void
request_finish(struct request *request);

/* The two parts of request_finish(): the first counts the request as answered, and its reply may
 * still be under way; the second frees it. */
static inline void
request_count_answered(struct request *request)
{
	request->queue->in_flight--;
	traffic_end(request->queue->traffic);
}
void
request_free(struct request *request);

/* Keeps the request and its buffer until request_leave(), even if it is finished before. */
void
request_keep(struct request *request);

void
request_leave(struct request *request);

/* Runs `work` on a thread of the image's helpers, then `done` on the worker's. */
void
request_ask_helper(struct request *request, void (*work)(struct helper_job *job),
		   void (*done)(struct helper_job *job));

/* Frees the request structures of a pool, none of which is in use. */
void
request_pool_free_all(struct request_pool *pool);

#endif
