/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/tool/least_server.h"

#include "nbd/protocol.h"
#include "nbd/wire.h"

#include <check.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

void
least_server_greet(int fd)
{
	uint8_t bytes[NBD_GREETING_SIZE];

	wire_store64(bytes, NBD_MAGIC);
	wire_store64(bytes + 8, NBD_OPTION_MAGIC);
	wire_store16(bytes + 16, NBD_FLAG_FIXED_NEWSTYLE);
	ck_assert_int_eq(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
}

void
least_server_hear(int fd)
{
	uint8_t bytes[100];

	ck_assert_int_gt(read(fd, bytes, sizeof(bytes)), 0);
}

void
least_server_answer(int fd, uint64_t size, uint16_t flags)
{
	uint8_t bytes[2 * NBD_REP_HEADER_SIZE + NBD_INFO_EXPORT_SIZE], *at = bytes;

	least_server_hear(fd);
	at = wire_store64(at, NBD_REP_MAGIC);
	at = wire_store32(at, NBD_OPT_GO);
	at = wire_store32(at, NBD_REP_INFO);
	at = wire_store32(at, NBD_INFO_EXPORT_SIZE);
	at = wire_store16(at, NBD_INFO_EXPORT);
	at = wire_store64(at, size);
	at = wire_store16(at, flags);
	at = wire_store64(at, NBD_REP_MAGIC);
	at = wire_store32(at, NBD_OPT_GO);
	at = wire_store32(at, NBD_REP_ACK);
	at = wire_store32(at, 0);
	ck_assert_int_eq(write(fd, bytes, (size_t)(at - bytes)), at - bytes);
}

int
least_server_bind(uint16_t *port)
{
	struct sockaddr_in place = {.sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(place);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&place, sizeof(place)), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&place, &length), 0);
	*port = ntohs(place.sin_port);
	return fd;
}
