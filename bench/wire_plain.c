/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench/wire.h"

#include <endian.h>
#include <err.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define GREETING 18

struct wire {
	int fd;
};

struct wire *
wire_open(const char *where)
{
	struct wire *wire = malloc(sizeof(*wire));
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	uint32_t flags = htobe32(3);
	char greeting[GREETING];

	if (strlen(where) >= sizeof(address.sun_path))
		errx(1, "%s: the path is too long", where);
	strcpy(address.sun_path, where);
	wire->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (wire->fd < 0 || connect(wire->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
		err(1, "%s", where);
	if (recv(wire->fd, greeting, GREETING, MSG_WAITALL) != GREETING)
		errx(1, "the server said too little");
	wire_send(wire, &flags, sizeof(flags));
	return wire;
}

size_t
wire_receive(struct wire *wire, void *data, size_t size)
{
	ssize_t n = recv(wire->fd, data, size, 0);

	if (n <= 0)
		errx(1, "the server disconnected");
	return (size_t)n;
}

void
wire_send(struct wire *wire, const void *data, size_t size)
{
	if (send(wire->fd, data, size, MSG_NOSIGNAL) != (ssize_t)size)
		err(1, "send");
}

void
wire_close(struct wire *wire)
{
	close(wire->fd);
	free(wire);
}
