/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a connection's bytes get through its socket: as they are, or in TLS, which is computed here
 * (tls_transport.h) or by the kernel. Nothing above asks whether bytes are encrypted.
 *
 * One receive and one send may be under way. transport_receive() may have bytes at once; otherwise
 * received() is called when some have come. sent() is called when all of the message is taken.
 */
#ifndef SERVER_CONNECTION_TRANSPORT_H
#define SERVER_CONNECTION_TRANSPORT_H

#include "server/loop/loop.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

/* A result of received() that is no -errno: transport_receive() can decrypt bytes now. */
#define TRANSPORT_ENCRYPTED INT_MIN

struct tls_transport;
struct transport;

/* What TLS replaces. */
struct transport_way {
	/* As transport_receive(), transport_send() and transport_say_end(). */
	ssize_t (*receive)(struct transport *transport, void *to, size_t size, bool all);
	void (*send)(struct transport *transport);
	void (*say_end)(struct transport *transport);
};

struct transport {
	const struct transport_way *way;
	struct loop *loop;
	int fd;
	bool lost;       /* transport_abort() was called: nothing is sent or received any more */
	bool said_end;   /* the client was told, by TLS, that nothing more follows */
	bool kernel_tls; /* the kernel encrypts */
	struct tls_transport *tls; /* in user space; NULL: none */
	struct loop_op recv_op, send_op;
	struct msghdr message; /* the rest that is to be sent */
	size_t room;  /* a receive of less leaves nothing unread in the socket; 0: unknown */
	bool drained; /* the last one was such a receive */
	uint64_t bytes_in, bytes_out; /* through the socket, in completed operations */
	uint64_t key_bytes; /* the most that the kernel may encrypt in one direction; 0: no limit */

	/* The owner's. Received: the bytes that came; 0: the client has closed its end; -errno,
	 * also -EINTR and -EAGAIN; or TRANSPORT_ENCRYPTED. Sent: 0 or -errno. */
	void (*received)(struct transport *transport, int result);
	void (*sent)(struct transport *transport, int result);
};

/* Removes the first `n` bytes of a message. False: nothing is left. */
static inline bool
message_advance(struct msghdr *message, size_t n)
{
	while (message->msg_iovlen > 0 && n >= message->msg_iov->iov_len) {
		n -= message->msg_iov->iov_len;
		message->msg_iov++;
		message->msg_iovlen--;
	}
	if (message->msg_iovlen == 0)
		return false;
	message->msg_iov->iov_base = (char *)message->msg_iov->iov_base + n;
	message->msg_iov->iov_len -= n;
	return true;
}

/* Bytes go through the socket as they are, until TLS begins. */
void
transport_init(struct transport *transport, int fd);

/* What follows goes through the socket as it is: the kernel encrypts it, or it is discarded. */
void
transport_be_plain(struct transport *transport);

/* Receives at most `size` bytes; with `all`, as many as there are. Returns how many are there at
 * once; 0: received() will be called, unless the transport has failed and the connection is
 * aborted; -ENODATA: the client has ended TLS. */
static inline ssize_t
transport_receive(struct transport *transport, void *to, size_t size, bool all)
{
	return transport->way->receive(transport, to, size, all);
}

/* Sends the parts, which must stay until sent(). */
static inline void
transport_send(struct transport *transport, struct iovec *parts, unsigned int count)
{
	transport->message.msg_iov = parts;
	transport->message.msg_iovlen = count;
	transport->way->send(transport);
}

/* The same, without TLS: `length` bytes in all. See loop_send_quietly(). */
static inline void
transport_send_quietly(struct transport *transport, struct iovec *parts, unsigned int count,
		       size_t length)
{
	transport->message.msg_iov = parts;
	transport->message.msg_iovlen = count;
	loop_send_quietly(transport->loop, &transport->send_op, transport->fd, &transport->message,
			  length);
}

static inline bool
transport_receives(const struct transport *transport)
{
	return transport->recv_op.active;
}

static inline bool
transport_sends(const struct transport *transport)
{
	return transport->send_op.active;
}

/* Returns the bytes of a receive whose completion was not called yet; in TLS, encrypted ones. */
size_t
transport_pending(const struct transport *transport);

/* Completes what is under way, and lets nothing begin. */
void
transport_abort(struct transport *transport);

/* Tells a client with TLS that nothing more follows, if that is possible without waiting. */
void
transport_say_end(struct transport *transport);

#endif
