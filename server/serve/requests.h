/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Carries out a connection's requests on its image, and has their results replied.
 */
#ifndef SERVER_SERVE_REQUESTS_H
#define SERVER_SERVE_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>

struct conn;
struct nbd_request;
struct request;

/* Submits a read or a write of `length` bytes in all, with its members: each has its part of the
 * leader's buffer, with the data of a write. */
void
requests_transfer(struct request *leader, size_t length);

/* The payload that the connection received straight into conn->filling is complete. */
void
requests_filled(struct conn *conn);

/* A read alone, for which it pays to look for holes; it takes its buffer when they are known. */
void
requests_read_sparse(struct request *request);

/* Goes on with reads that wait for memory, or lets go of them when the connection is lost. */
void
requests_feed(struct conn *conn);

/* Begins a request that has no payload in either direction, and carries it out.  False: there is no
 * memory now. */
bool
requests_carry_out(struct conn *conn, const struct nbd_request *nbd);

#endif
