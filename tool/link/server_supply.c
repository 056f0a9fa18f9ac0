/* SPDX-License-Identifier: BSD-3-Clause */
#include "tool/link/server_supply.h"

#include "tool/failure.h"
#include "tool/link/server_process.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static bool
supply_make_pairs(int type, int *ours, int *theirs, unsigned int count, GError **error)
{
	for (unsigned int i = 0; i < count; i++) {
		int pair[2];

		if (socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair) < 0)
			return failure_errno(error, errno, "the sockets to a server can't be made");
		ours[i] = pair[0];
		theirs[i] = pair[1];
	}
	return true;
}

bool
server_supply_make(int *ours, int *theirs, GError **error)
{
	return supply_make_pairs(SOCK_SEQPACKET, ours, theirs, 1, error);
}

static bool
supply_pass(int supply, const int *sockets, unsigned int count, GError **error)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(SERVER_SUPPLY_MAX * sizeof(int))] = {0};
	char text[] = "sockets"; /* for those who watch */
	struct iovec bytes = {text, strlen(text)};
	struct msghdr message = {
		.msg_iov = &bytes,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = CMSG_SPACE(count * sizeof(int)),
	};
	struct cmsghdr *part = CMSG_FIRSTHDR(&message);

	*part = (struct cmsghdr){
		.cmsg_len = CMSG_LEN(count * sizeof(int)),
		.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS,
	};
	memcpy(CMSG_DATA(part), sockets, count * sizeof(int));
	return sendmsg(supply, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 ||
	       failure_errno(error, errno, "the server takes no connections");
}

bool
server_supply_pass(int supply, int *ours, unsigned int count, GError **error)
{
	int theirs[SERVER_SUPPLY_MAX];
	bool passed;

	for (unsigned int i = 0; i < count; i++)
		ours[i] = theirs[i] = -1;
	passed = supply_make_pairs(SOCK_STREAM, ours, theirs, count, error) &&
		 supply_pass(supply, theirs, count, error);
	server_sockets_close(theirs, count);
	if (!passed)
		server_sockets_close(ours, count);
	return passed;
}

bool
server_supply_is_idle(int *supply)
{
	bool idle = false;
	char text[16];
	ssize_t n;

	if (*supply < 0)
		return false;
	while ((n = recv(*supply, text, sizeof(text), MSG_DONTWAIT)) > 0)
		idle = true;
	if (n == 0 || (errno != EAGAIN && errno != EINTR))
		server_sockets_close(supply, 1);
	return idle;
}
