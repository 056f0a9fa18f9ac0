/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes requests from a connection's input: decodes and checks each, merges adjacent ones, and
 * carries them out on the image or answers them with an error.
 *
 *     dispatch_run() -> decode -> take -> submit -> done -> the reply is in the outbox
 *                                   |
 *                                   +-> the payload is still coming: dispatch_filled() -> submit
 *                                   +-> no memory, too many, or a limit: the input pauses
 */
#ifndef SERVER_CONNECTION_DISPATCH_H
#define SERVER_CONNECTION_DISPATCH_H

struct conn;
struct request;

/* Takes the requests in the connection's input, as far as there is memory for them. */
void
dispatch_run(struct conn *conn);

/* Submits a write whose payload has been received. */
void
dispatch_filled(struct request *request);

/* Continues reads that wait for memory, or finishes them if the connection is lost. */
void
dispatch_feed(struct conn *conn);

#endif
