/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client's connection to a server: over a unix socket (wire_plain.c), or over TCP with TLS
 * (wire_tls.c).  A program is linked with one of them.  Every failure ends the program.
 */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H

#include <stddef.h>

struct wire;

/* Connects, and brings the handshake to the point where options are sent: the greeting is read, the
 * client's flags are sent, and TLS has begun if there is any.  Plain: `where` is the socket's path.
 * TLS: PORT:USER:KEY, a port of 127.0.0.1 and a pre-shared key in hexadecimal digits. */
struct wire *
wire_open(const char *where);

/* Receives at least 1 byte and up to `size`; returns how many. */
size_t
wire_receive(struct wire *wire, void *data, size_t size);

void
wire_send(struct wire *wire, const void *data, size_t size);

void
wire_close(struct wire *wire);

#endif
