/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/link/peer.h"

#include <glib.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

void
peer_watch(int fd, unsigned int seconds)
{
	const int one = 1, count = 3;
	const int step = (int)MAX(seconds / 8, 1);
	const unsigned int unsent = seconds * 500; /* ms */

	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &step, sizeof(step));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &step, sizeof(step));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unsent, sizeof(unsent));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
}
