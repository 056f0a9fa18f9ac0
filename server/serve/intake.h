/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes requests from the bytes that a connection received: decodes and judges each, merges
 * adjacent ones, and has them carried out or answers them with an error.
 */
#ifndef SERVER_SERVE_INTAKE_H
#define SERVER_SERVE_INTAKE_H

struct conn;

/* Takes the requests in the connection's input, as far as there is room for them. */
void
intake_run(struct conn *conn);

#endif
