/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The network: sockets in pairs. Bytes arrive in portions and later than they were sent (over a
 * unix socket at once), in order. The end of a connection arrives as well, or does not: a peer can
 * vanish.
 *
 * The server's sockets are descriptors of its process; clients use the functions below.
 */
#ifndef TESTS_SIMULATION_NETWORK_H
#define TESTS_SIMULATION_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct socket;

/* Over TCP, the longest delay of bytes; once in so many sends, a delay is a thousand times as long.
 */
struct network_mood {
	int64_t delay;
	unsigned int lag;
};

extern struct network_mood network_mood;

/* Connects to the listener of a unix socket's path, or of a TCP port ("10809"). To the server, each
 * `who` below 100 has an address of its own, or is a user of its own: 0 is root. Returns NULL if
 * nobody listens. */
struct socket *
network_connect(const char *address, unsigned int who);

/* Both wait. Sends all, or returns -EPIPE. */
int
network_send(struct socket *socket, const void *bytes, size_t size);

/* Does not wait. Returns 0 if all bytes could be sent, or -EAGAIN or -EPIPE. */
int
network_try(struct socket *socket, const void *bytes, size_t size);

/* Receives all; 0 or -ECONNRESET or -ETIMEDOUT. */
int
network_receive(struct socket *socket, void *bytes, size_t size, int64_t until);

/* Whether bytes, or the end, are there. */
bool
network_is_readable(struct socket *socket);

/* Waits for them. Returns whether they are there. */
bool
network_await(struct socket *socket, int64_t until);

/* The client sends no more, and still receives. */
void
network_send_end(struct socket *socket);

/* The client neither sends nor receives any more, and waits until the server closes its end.
 * Returns whether it does. */
bool
network_await_end(struct socket *socket, int64_t until);

/* Whether the server has a connection whose client has closed it, or is gone. */
bool
network_has_orphans(void);

/* Closes a client's socket; `reset`: with RST. Returns when the server's side will have heard of
 * it. */
int64_t
network_close(struct socket *socket, bool reset);

/* The same for a client of TCP whose machine is gone: nothing tells the server, until an answer
 * finds nobody, or the machine is there again. */
int64_t
network_vanish(struct socket *socket);

/* Forgets all listeners and sockets. */
void
network_end(void);

#endif
