/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Static probes (USDT) on a request's way: a nop each until a tracer puts itself there. nbdloopd(8)
 * documents them.
 */
#ifndef SERVER_SERVE_PROBES_H
#define SERVER_SERVE_PROBES_H

#include "server/serve/conn_state.h"
#include "server/serve/request_state.h"

#ifdef HAVE_SYS_SDT_H

#include <sys/sdt.h>

#define PROBES_THERE "yes"

/* `name` of `request`, with the range that it is about now. */
#define PROBE(name, request, offset, length)                                                       \
	DTRACE_PROBE6(nbdloopd, name, (request)->conn->id, (request)->nbd.cookie,                  \
		      (request)->nbd.type, offset, length, (request)->result)

#else

#define PROBES_THERE                         "no"

#define PROBE(name, request, offset, length) ((void)(request))

#endif

/* Its header was taken from the connection. */
static inline void
probe_received(const struct request *request)
{
	PROBE(received, request, request->nbd.offset, request->nbd.length);
}

/* Its operation, the merged one of a leader, goes to the image. */
static inline void
probe_submitted(const struct request *request)
{
	PROBE(submitted, request, request->io.offset, request->io.length);
}

/* The image has its result. */
static inline void
probe_done(const struct request *request)
{
	PROBE(done, request, request->nbd.offset, request->nbd.length);
}

/* The socket has taken the last byte of its reply. */
static inline void
probe_replied(const struct request *request)
{
	PROBE(replied, request, request->nbd.offset, request->nbd.length);
}

#endif
