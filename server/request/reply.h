/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Writes the replies to requests; an outbox (server/connection/outbox.h) sends them.
 */
#ifndef SERVER_REQUEST_REPLY_H
#define SERVER_REQUEST_REPLY_H

#include "nbd/reply.h"

#include <stdint.h>

struct request;

#define REPLY_NO_MEMORY "the server is out of memory"

/* Writes the reply that tells `result`: 0 or -errno. */
void
reply_write(struct request *request, int result);

/* The same for a read that has succeeded, and whose first `sent` bytes (less than all) were sent
 * early. */
void
reply_write_rest(struct request *request, uint32_t sent);

/* Writes an error's reply. `message` (for clients that take one) or NULL. */
void
reply_write_error(struct request *request, enum nbd_error error, const char *message);

#endif
