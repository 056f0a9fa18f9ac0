/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/nbd/client.h"

#include "common/cleanup.h"
#include "tests/nbd/pattern.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PIECE (UINT64_C(32) << 20) /* the largest request that every server takes */

static struct nbd_handle *
client_new(const char *name)
{
	struct nbd_handle *client = nbd_create();

	ck_assert_msg(client != NULL, "%s", nbd_get_error());
	ck_assert_int_eq(nbd_add_meta_context(client, LIBNBD_CONTEXT_BASE_ALLOCATION), 0);
	ck_assert_msg(nbd_set_export_name(client, name) == 0, "%s", nbd_get_error());
	/* The minimum block size is advice; these servers accept every alignment. */
	ck_assert_int_eq(
		nbd_set_strict_mode(client, nbd_get_strict_mode(client) & ~LIBNBD_STRICT_ALIGN), 0);
	return client;
}

int
client_reach(struct nbd_handle *client, const struct server *server)
{
	if (server->psk_path) {
		ck_assert_int_eq(nbd_set_tls(client, LIBNBD_TLS_REQUIRE), 0);
		ck_assert_int_eq(nbd_set_tls_username(client, SERVER_USER), 0);
		ck_assert_int_eq(nbd_set_tls_psk_file(client, server->psk_path), 0);
	}
	return nbd_connect_unix(client, server->socket_path);
}

struct nbd_handle *
client_connect(const struct server *server, const char *name)
{
	struct nbd_handle *client = client_try_connect(server, name);

	ck_assert_msg(client != NULL, "export \"%s\": %s", name, nbd_get_error());
	return client;
}

struct nbd_handle *
client_try_connect(const struct server *server, const char *name)
{
	struct nbd_handle *client = client_new(name);

	if (client_reach(client, server) == 0)
		return client;
	nbd_close(client);
	return NULL;
}

void
client_close(struct nbd_handle *client)
{
	ck_assert_msg(nbd_shutdown(client, 0) == 0, "%s", nbd_get_error());
	nbd_close(client);
}

void
client_send_anything(struct nbd_handle *client)
{
	ck_assert_int_eq(nbd_set_strict_mode(client, 0), 0);
}

void
client_write_at(const char *file, int line, struct nbd_handle *client, uint64_t offset,
		uint64_t length, uint32_t pattern, uint32_t flags)
{
	char *CLEANUP_FREE buffer = malloc(length < PIECE ? length : PIECE);

	ck_assert_ptr_nonnull(buffer);
	while (length > 0) {
		uint64_t piece = length < PIECE ? length : PIECE;

		pattern_fill(buffer, piece, offset, pattern);
		if (nbd_pwrite(client, buffer, piece, offset, flags) != 0)
			ck_abort_msg("%s:%d: write of %llu bytes at %llu: %s", file, line,
				     (unsigned long long)piece, (unsigned long long)offset,
				     nbd_get_error());
		offset += piece;
		length -= piece;
	}
}

void
client_done_at(const char *file, int line, int result)
{
	if (result != 0)
		ck_abort_msg("%s:%d: %s", file, line, nbd_get_error());
}

void
client_refused_at(const char *file, int line, int result, int error)
{
	if (result == 0)
		ck_abort_msg("%s:%d: succeeded, expected: %s", file, line, strerror(error));
	if (nbd_get_errno() != error)
		ck_abort_msg("%s:%d: %s; expected: %s", file, line, nbd_get_error(),
			     strerror(error));
}

void
client_expect_at(const char *file, int line, struct nbd_handle *client, uint64_t offset,
		 uint64_t length, uint32_t pattern)
{
	unsigned char *CLEANUP_FREE buffer = malloc(length < PIECE ? length : PIECE);

	ck_assert_ptr_nonnull(buffer);
	while (length > 0) {
		uint64_t piece = length < PIECE ? length : PIECE;
		ssize_t at;

		if (nbd_pread(client, buffer, piece, offset, 0) != 0)
			ck_abort_msg("%s:%d: read of %llu bytes at %llu: %s", file, line,
				     (unsigned long long)piece, (unsigned long long)offset,
				     nbd_get_error());
		at = pattern_mismatch(buffer, piece, offset, pattern);
		if (at >= 0)
			ck_abort_msg("%s:%d: wrong byte 0x%02x at offset %llu, expected pattern %u",
				     file, line, buffer[at],
				     (unsigned long long)offset + (unsigned long long)at, pattern);
		offset += piece;
		length -= piece;
	}
}
