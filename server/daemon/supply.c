/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/daemon/supply.h"

#include "server/daemon/acceptor.h"
#include "server/daemon/activation.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Sockets in one message: as many as the kernel lets pass (SCM_MAX_FD). */
#define SOCKETS_MAX 253

int
supply_open(struct supply *supply, int fd, char **error)
{
	const int r = activation_check_fd(fd, SOCK_SEQPACKET, error);

	if (r == 0)
		supply->fd = fd;
	return r;
}

void
supply_close(struct supply *supply)
{
	if (supply->fd >= 0)
		close(supply->fd);
	supply->fd = -1;
}

bool
supply_list(struct supply *supply, bool idle, struct pollfd *polled)
{
	bool waits;

	if (idle && supply->serves && supply->fd >= 0) {
		supply->serves = false;
		/* Without this message, the program would wait in vain. If the socket ends, it
		 * starts another server. */
		if (send(supply->fd, SUPPLY_IDLE, strlen(SUPPLY_IDLE),
			 MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
			if (errno != EPIPE && errno != ECONNRESET)
				log_warning("--fd-from: %s", strerror(errno));
			supply_close(supply);
		}
	}
	waits = idle && supply->fd >= 0;
	*polled = (struct pollfd){.fd = waits ? supply->fd : -1, .events = POLLIN};
	return waits;
}

static void
supply_adopt(struct acceptor *acceptor, int fd)
{
	char *CLEANUP_FREE error = NULL;

	if (activation_check_fd(fd, SOCK_STREAM, &error) == 0) {
		acceptor_adopt(acceptor, fd);
		return;
	}
	log_error("--fd-from: %s", error ? error : strerror(EINVAL));
	close(fd);
}

static void
adopt_all(struct acceptor *acceptor, struct msghdr *message)
{
	for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part;
	     part = CMSG_NXTHDR(message, part)) {
		const size_t length = part->cmsg_len - CMSG_LEN(0);

		if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = 0; at + sizeof(int) <= length; at += sizeof(int)) {
			int fd;

			memcpy(&fd, CMSG_DATA(part) + at, sizeof(fd));
			supply_adopt(acceptor, fd);
		}
	}
}

void
supply_take(struct supply *supply, struct acceptor *acceptor)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(SOCKETS_MAX * sizeof(int))];
	char text[sizeof(SUPPLY_IDLE)];
	struct iovec bytes = {text, sizeof(text)};
	struct msghdr message = {
		.msg_iov = &bytes,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n = recvmsg(supply->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		supply_close(supply);
		return;
	}
	if (message.msg_flags & MSG_CTRUNC)
		log_error(
			"--fd-from: not all of the sockets that were passed can be taken: too many "
			"files are open");
	/* If none of them becomes a connection, the program is told at once. */
	supply->serves = true;
	adopt_all(acceptor, &message);
}
