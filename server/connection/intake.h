/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Takes requests from a connection's input: decodes and checks each, merges adjacent ones, and
 * carries them out or answers them with an error.
 */
#ifndef SERVER_CONNECTION_INTAKE_H
#define SERVER_CONNECTION_INTAKE_H

struct conn;

/* Takes the requests in the connection's input, as far as there is memory for them. */
void
intake_run(struct conn *conn);

#endif
