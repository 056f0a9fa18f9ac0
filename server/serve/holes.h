/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The holes of a large read: told to the client, and not sent to it as zeroes.
 */
#ifndef SERVER_SERVE_HOLES_H
#define SERVER_SERVE_HOLES_H

#include <stdbool.h>
#include <sys/uio.h>

struct nbd_request;
struct nbd_session;
struct request;
struct worker_context;

/*
 * Whether it pays to look for holes in this read: it is large, the client takes them, and where it
 * reads, the image isn't known to have none.  This knowledge is forgotten after many large reads.
 */
bool
holes_worth_finding(struct worker_context *context, const struct nbd_session *session,
		    const struct nbd_request *nbd);

/*
 * Sets the parts of a read, whose I/O must not have begun: bytes that were written, and
 * acknowledged, before this are data. None if there are no holes worth telling.  The file system is
 * asked by a helper of the image's context; found() is called later, on the worker's thread.
 */
void
holes_find(struct request *request, void (*found)(struct request *request));

/* All of it is one. */
bool
holes_only(const struct request *request);

/* The read was carried out: writes the headers of its parts. */
void
holes_reply(struct request *request);

/* The whole of its reply, at most 2 * REQUEST_PARTS entries.  Returns how many. */
unsigned int
holes_gather(struct request *request, struct iovec *iov);

#endif
