/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Carries out a connection's requests on its image, and replies with their results.
 */
#ifndef SERVER_REQUEST_REQUESTS_H
#define SERVER_REQUEST_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>

struct conn;
struct nbd_request;
struct request;

/* Submits a read or a write with its merged members, `length` bytes in all.  Each has its part of
 * the leader's buffer, which holds the data of a write. */
void
requests_transfer(struct request *leader, size_t length);

/* Submits conn->filling, whose payload has been received. */
void
requests_filled(struct conn *conn);

/* Carries out a single read that is worth a search for holes; it takes its buffer after that. */
void
requests_read_sparse(struct request *request);

/* Continues reads that wait for memory, or finishes them if the connection is lost. */
void
requests_feed(struct conn *conn);

/* Begins and carries out a request without payload in either direction.  False: no memory now. */
bool
requests_carry_out(struct conn *conn, const struct nbd_request *nbd);

#endif
