/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A libnbd client that sends any request, aligned or not, and fails the test when a request fails.
 * The macros report the line of the test that called them.
 */
#ifndef TESTS_NBD_CLIENT_H
#define TESTS_NBD_CLIENT_H

#include "tests/nbd/pattern.h"
#include "tests/nbd/server.h"

#include <libnbd.h>
#include <stdint.h>

#define MIB (UINT64_C(1) << 20)

/* Connects a new client to the server, with TLS if that has TLS.  As nbd_connect_unix(). */
int
client_reach(struct nbd_handle *client, const struct server *server);

/* Connects, with the context base:allocation. `name` is the export's; "" is the default export. */
struct nbd_handle *
client_connect(const struct server *server, const char *name);

/* As above, but returns NULL if the server refuses. */
struct nbd_handle *
client_try_connect(const struct server *server, const char *name);

/* Sends NBD_CMD_DISC, then closes. */
void
client_close(struct nbd_handle *client);

/* Has libnbd send requests that it would refuse itself. */
void
client_send_anything(struct nbd_handle *client);

/* Writes that part of a pattern. */
#define client_write(client, offset, length, pattern, flags)                                       \
	client_write_at(__FILE__, __LINE__, client, offset, length, pattern, flags)
void
client_write_at(const char *file, int line, struct nbd_handle *client, uint64_t offset,
		uint64_t length, uint32_t pattern, uint32_t flags);

#define client_zero(client, offset, length, flags)                                                 \
	client_done_at(__FILE__, __LINE__, nbd_zero(client, length, offset, flags))
#define client_trim(client, offset, length, flags)                                                 \
	client_done_at(__FILE__, __LINE__, nbd_trim(client, length, offset, flags))
#define client_flush(client) client_done_at(__FILE__, __LINE__, nbd_flush(client, 0))
void
client_done_at(const char *file, int line, int result);

/* Fails the test unless the call failed with that error. */
#define client_refused(result, error) client_refused_at(__FILE__, __LINE__, result, error)
void
client_refused_at(const char *file, int line, int result, int error);

/* Reads, and fails the test unless the data is that part of a pattern. */
#define client_expect(client, offset, length, pattern)                                             \
	client_expect_at(__FILE__, __LINE__, client, offset, length, pattern)
void
client_expect_at(const char *file, int line, struct nbd_handle *client, uint64_t offset,
		 uint64_t length, uint32_t pattern);

#endif
