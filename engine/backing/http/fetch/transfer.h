/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transfers of nbdloop-fetch: one range of a page each, by libcurl, with the checks of what the
 * server sends. All is on one thread; libcurl has threads of its own that look up names.
 */
#ifndef ENGINE_BACKING_HTTP_FETCH_TRANSFER_H
#define ENGINE_BACKING_HTTP_FETCH_TRANSFER_H

#include "engine/backing/http/fetch_wire.h"

#include <stddef.h>

/* Starts libcurl. Answers go to the socket. Returns 0 or -errno. */
int
transfers_begin(int socket);

/* Carries out an order. `text` has `length` bytes, the last one NUL. `ca_fd`, if it is not -1, is
 * of a file with certificates, and stays the caller's. */
void
transfers_order(const struct fetch_order *order, const char *text, size_t length, int ca_fd);

/* Moves bytes where that is possible, and answers. Then waits until a server or the socket has
 * something. */
void
transfers_turn(void);

/* Sends an answer. If the engine has gone, ends the process. */
void
transfers_answer(const struct fetch_answer *answer, const void *data, size_t length);

#endif
