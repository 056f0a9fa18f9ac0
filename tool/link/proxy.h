/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * TLS by a program: it encrypts what the kernel's nbd driver sends to a server, and decrypts what
 * comes back.  An event loop for any number of connections, which knows neither devices nor
 * processes (tool/source/proxies.h).
 */
#ifndef TOOL_LINK_PROXY_H
#define TOOL_LINK_PROXY_H

struct tls_session;

/* A connection, between the kernel and a server. */
struct proxied {
	int kernel; /* a stream socket, in the clear; its other end is the nbd driver's */
	int server; /* a stream socket, on which the session has been negotiated */
	struct tls_session *session;
};

/*
 * Returns when all connections have ended, or -errno if it can't begin.  It takes over sockets and
 * sessions in any case.  If one side of a connection ends, it ends the other: when the kernel gives
 * a connection up, what the server has not got yet is dropped, since the kernel sends it again on
 * another connection.  Keys change as TLS wants it.
 *
 * Why TLS failed is logged; `place` is the server's URI.
 */
int
proxy_run(const struct proxied *connections, unsigned int count, const char *place);

#endif
