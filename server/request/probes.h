/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Static probes (USDT) on a request's way: each is a nop until a tracer attaches to it.
 * nbdloopd-control(7) documents them.
 */
#ifndef SERVER_REQUEST_PROBES_H
#define SERVER_REQUEST_PROBES_H

#ifdef HAVE_SYS_SDT_H

#include <sys/sdt.h>

#define PROBES_THERE "yes"

#define PROBE_RANGE(name, request, offset, length)                                                 \
	DTRACE_PROBE6(nbdloopd, name, (request)->queue->id, (request)->nbd.cookie,                 \
		      (request)->nbd.type, offset, length, (request)->result)

#else

#define PROBES_THERE                               "no"

#define PROBE_RANGE(name, request, offset, length) ((void)(request))

#endif

/* received: the header was taken from the connection; done: the image has the result; replied: the
 * socket has taken the last byte of the reply, or takes it now. */
#define PROBE(name, request)                                                                       \
	PROBE_RANGE(name, request, (request)->nbd.offset, (request)->nbd.length)

/* submitted: the operation, a leader's merged one, goes to the image. */
#define PROBE_IO(name, request)                                                                    \
	PROBE_RANGE(name, request, (request)->io.offset, (request)->io.length)

#endif
