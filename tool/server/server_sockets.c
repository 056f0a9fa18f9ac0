/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/server/server_sockets.h"

#include "tool/failure.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static bool
make_pairs(int *ours, int *theirs, unsigned int count, GError **error)
{
	for (unsigned int i = 0; i < count; i++) {
		int pair[2];

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
			return failure(error, errno, "no sockets to talk to a server: %s",
				       g_strerror(errno));
		ours[i] = pair[0];
		theirs[i] = pair[1];
	}
	return true;
}

static bool
connect_all(int *ours, const struct sockaddr_un *address, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		ours[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (ours[i] < 0 ||
		    connect(ours[i], (const struct sockaddr *)address, sizeof(*address)) < 0)
			return false;
	}
	return true;
}

/* A socket that listens, and connections to it.  Its name is only root's to find, and gone when
 * they are there: nobody else can connect to the server. */
static bool
make_listener(int *ours, int *listener, unsigned int count, const char *name, GError **error)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	bool made;

	g_strlcpy(address.sun_path, name, sizeof(address.sun_path));
	unlink(address.sun_path);
	*listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	made = *listener >= 0 &&
	       bind(*listener, (struct sockaddr *)&address, sizeof(address)) == 0 &&
	       listen(*listener, (int)count) == 0 && connect_all(ours, &address, count);
	if (!made)
		failure(error, errno, "no sockets to talk to a server: %s", g_strerror(errno));
	unlink(address.sun_path);
	return made;
}

bool
server_sockets_make(int *ours, int *theirs, unsigned int count, const char *name,
		    unsigned int *given, GError **error)
{
	for (unsigned int i = 0; i < count; i++)
		ours[i] = theirs[i] = -1;
	*given = name ? 1 : count;
	return name ? make_listener(ours, theirs, count, name, error)
		    : make_pairs(ours, theirs, count, error);
}

void
server_sockets_close(int *sockets, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		if (sockets[i] >= 0)
			close(sockets[i]);
		sockets[i] = -1;
	}
}
