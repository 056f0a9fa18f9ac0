/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An event loop: operations on sockets and events are started, and their completions are called, on
 * one thread. With io_uring all of it is on one ring, which the contexts of images share; without,
 * epoll tells when a socket can be read or written. Which of them it is shows only in speed.
 */
#ifndef SERVER_LOOP_LOOP_H
#define SERVER_LOOP_LOOP_H

#include "server/loop/loop_op.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

struct loop;
struct ring;

/* To be called on the thread that will run it. `use_ring`: with io_uring, which must work here.
 * `spins`: spin.c will ask again and again whether it is ready. Returns 0 or -errno. */
int
loop_new(struct loop **loop, bool use_ring, bool spins);

/* No operation may be in flight. */
void
loop_free(struct loop *loop);

/* NULL: epoll. */
struct ring *
loop_ring(struct loop *loop);

/* Receives at least one byte and at most `length`; with `all`, as many as there are until then or
 * the end. */
void
loop_recv(struct loop *loop, struct loop_op *op, int fd, void *buffer, size_t length, bool all);

/* Sends; the result may be less than all. `message` and what it points to must stay until
 * completion. */
void
loop_send(struct loop *loop, struct loop_op *op, int fd, struct msghdr *message);

/*
 * The same, but if the socket takes all `length` bytes of the message at once, that does not end
 * the wait of a turn: the completion is called after it, however long it was. So a reply costs no
 * turn of its own.
 */
void
loop_send_quietly(struct loop *loop, struct loop_op *op, int fd, struct msghdr *message,
		  size_t length);

/* Returns whether quiet sends have not completed; they may have succeeded. */
bool
loop_sends_quietly(const struct loop *loop);

/* Completes once when there is something to read. */
void
loop_poll(struct loop *loop, struct loop_op *op, int fd);

/* Lets an operation that is in flight complete soon, with -ECANCELED unless it had another result
 * before. */
void
loop_cancel(struct loop *loop, struct loop_op *op);

/* Returns whether an operation is in flight and still waits: it has taken no bytes from the socket.
 * Before Linux 6.1, true may be wrong for a moment. */
bool
loop_waits(struct loop *loop, const struct loop_op *op);

/* Returns whether an operation is in flight and has its result already; the next turn completes it.
 */
bool
loop_has_result(struct loop *loop, const struct loop_op *op, int *result);

/*
 * One turn: submits what was started, waits for something to complete for at most `timeout_ms` (-1:
 * for ever, 0: not at all), and calls the completions. 0 or -errno.
 */
int
loop_turn(struct loop *loop, int timeout_ms);

#endif
