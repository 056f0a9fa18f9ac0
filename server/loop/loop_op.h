/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An operation of the event loop on a socket or an event.
 */
#ifndef SERVER_LOOP_LOOP_OP_H
#define SERVER_LOOP_LOOP_OP_H

#include "engine/completion.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct loop;

enum loop_kind {
	LOOP_RECV,
	LOOP_SEND,
	LOOP_SEND_QUIETLY,
	LOOP_POLL,
};

/*
 * An operation, embedded by its owner, which sets .completion.done (and .partly) and changes
 * nothing else while it is under way. The result is a count of bytes (0 from RECV: the peer has
 * closed), or -errno.
 */
struct loop_op {
	struct completion completion;
	bool partly; /* the owner's: the socket takes no MSG_WAITALL */

	/* The loop's. */
	struct completion failed; /* of a quiet send: the socket did not take all of it at once */
	enum loop_kind kind;
	int fd;
	void *buffer;
	size_t length;
	struct msghdr *message;
	struct loop *loop; /* of a quiet send */
	bool active;
	struct loop_op *next;
};

#endif
