/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of an I/O context; for the engine's own files.
 */
#ifndef ENGINE_IO_IOCTX_STATE_H
#define ENGINE_IO_IOCTX_STATE_H

#include "engine/counters.h"
#include "engine/io/helpers.h"
#include "engine/io/range.h"

#include <stdalign.h>

struct backend;
struct chunk;
struct image;
struct io;
struct ring;

struct ioctx {
	/* Constant while the context is there: other contexts' threads look through .track. */
	alignas(64) struct range_track track;
	struct image *image; /* outlives the context */
	const struct backend *backend;
	void *backend_state;
	struct ring *host_ring; /* an event loop's, which runs it; NULL: the backend does without */
	bool hosted;            /* by an event loop: see ioctx_new_hosted() */
	unsigned int depth;     /* chunks */
	unsigned int
		registered; /* so many chunks' buffers, from the first, are known to the kernel */
	char *arena;        /* the image's arena's piece: depth * CHUNK_SIZE bytes, page-aligned */
	struct chunk *chunks;     /* depth of them */
	struct chunk **idle;      /* stack of chunks that are not in use */
	struct range_slot *slots; /* changes under way */
	unsigned int slot_count;
	int inbox_event; /* eventfd: the inbox has got something */

	/* The thread's own. */
	alignas(64) unsigned int idle_count;
	unsigned int queued; /* chunks with the backend */
	int64_t turn; /* bytes that a serial backend may still move for a host in this run; only it
			 counts */
	const struct io *waited_for; /* the thread does nothing else until this, its one operation,
					is done */
	struct io *waiting;          /* ios with something left to issue, first come first */
	struct io **waiting_tail;
	unsigned int unfinished; /* ios submitted and not done */
	unsigned int last_slot;  /* that was looked at for a free one */

	/* Ios whose range was granted by another thread, last come first. */
	_Atomic(struct io *) inbox;

	struct counters counters; /* written by the context's thread, read by anybody */

	struct helpers helpers; /* of a hosted context; see ioctx_help() */

	/* The pool's; see pool.c. */
	alignas(64) _Atomic bool busy;
	_Atomic bool owned;
	struct ioctx *next;
};

#endif
