/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/source/export_read.h"

#include "tool/failure.h"

#include "nbd/protocol.h"
#include "nbd/wire.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#define COOKIE UINT64_C(0x6e62646c6f6f70)

static bool
send_request(int fd, uint16_t command, uint32_t length, GError **error)
{
	uint8_t bytes[NBD_REQUEST_SIZE], *at = bytes;

	at = wire_store32(at, NBD_REQUEST_MAGIC);
	at = wire_store16(at, 0);
	at = wire_store16(at, command);
	at = wire_store64(at, COOKIE);
	at = wire_store64(at, 0);
	wire_store32(at, length);
	/* The socket is new, and its buffer has room. */
	return send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(bytes) ||
	       failure_errno(error, errno, "the read can't be sent");
}

static bool
export_receive(int fd, uint8_t *bytes, size_t size, gint64 end, GError **error)
{
	while (size > 0) {
		const gint64 left = MAX(end - g_get_monotonic_time(), 0);
		struct pollfd news = {.fd = fd, .events = POLLIN};
		ssize_t n;

		if (poll(&news, 1, (int)(left / 1000)) == 0)
			return failure(error, ETIMEDOUT, "the read was not answered in time");
		n = recv(fd, bytes, size, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n <= 0)
			return failure(error, n < 0 ? errno : EPIPE,
				       "the server closed the connection instead of a reply");
		bytes += n;
		size -= (size_t)n;
	}
	return true;
}

static bool
check_reply(const uint8_t *reply, GError **error)
{
	const uint32_t err = wire_load32(reply + 4);

	if (wire_load32(reply) != NBD_SIMPLE_REPLY_MAGIC || wire_load64(reply + 8) != COOKIE)
		return failure(error, EPROTO, "the server answered something that is no reply");
	return err == 0 || failure(error, EIO, "the read failed: the server reports error %u (%s)",
				   err, g_strerror((int)err));
}

bool
export_read_first(const struct source_connection *connection, gint64 end, GError **error)
{
	const struct export_facts *export = &connection->export;
	const uint32_t length = (uint32_t)MIN(export->size, export->block_size);
	g_autofree uint8_t *data = g_malloc(length);
	uint8_t reply[NBD_SIMPLE_REPLY_SIZE];

	/* An empty export has nothing to read. */
	if (length > 0 && (!send_request(connection->fd, NBD_CMD_READ, length, error) ||
			   !export_receive(connection->fd, reply, sizeof(reply), end, error) ||
			   !check_reply(reply, error) ||
			   !export_receive(connection->fd, data, length, end, error)))
		return false;
	/* A server may log clients that leave without it. */
	send_request(connection->fd, NBD_CMD_DISC, 0, NULL);
	return true;
}
