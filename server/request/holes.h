/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The holes of a large read, which are reported to the client instead of sent as zeroes.
 */
#ifndef SERVER_REQUEST_HOLES_H
#define SERVER_REQUEST_HOLES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct nbd_request;
struct request;
struct request_queue;

/* What is known of an image, for the reads of one thread. */
struct holes_known {
	bool dense;                    /* the image had no holes when it was last looked at */
	uint64_t data_start, data_end; /* bytes of the image that had no hole then */
	unsigned int large_reads;      /* reads that were worth a search for holes */
};

/*
 * Returns whether a search for holes in this read is worth its cost: the read is large, the client
 * understands holes, and the image isn't known to have none there. This knowledge is forgotten
 * after many large reads.
 */
bool
holes_worth_finding(struct request_queue *queue, const struct nbd_request *nbd);

/*
 * Sets the parts of a read whose I/O has not begun, so that bytes whose write was acknowledged
 * before are data; no parts if no hole is worth reporting. A helper of the image's context asks the
 * file system; found() is called later, on the worker's thread.
 */
void
holes_find(struct request *request, void (*found)(struct request *request));

/* Writes the headers of the parts of a read that has been carried out. */
void
holes_reply(struct request *request);

/* Lists the whole reply, in at most 2 * REQUEST_PARTS entries. Returns their number. */
unsigned int
holes_gather(struct request *request, struct iovec *iov);

#endif
