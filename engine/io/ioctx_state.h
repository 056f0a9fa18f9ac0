/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of an I/O context, for the engine's own files.
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
struct layered_work;
struct ring;

struct ioctx {
	/* Constant while the context exists, since threads of other contexts look through .track.
	 */
	alignas(64) struct range_track track;
	struct image *image; /* outlives the context */
	/* The image's: it is called for each chunk. */
	bool (*plan)(const struct image *image, struct io *io, struct chunk *chunk);
	const struct backend *backend;
	void *backend_state;
	struct ring *host_ring; /* the ring of the event loop that runs this context; NULL: the
				   backend uses none */
	bool hosted;            /* run by an event loop: see ioctx_new_hosted() */
	/* The backend's: why not all memory is registered with the ring, which holds NULL if it is.
	 * NULL: the backend registers none. */
	const _Atomic(const char *) *unregistered;
	unsigned int depth; /* number of chunks */
	char *arena; /* a piece of the image's arena: depth * CHUNK_SIZE bytes, page-aligned */
	struct chunk *chunks;     /* array of .depth chunks */
	struct chunk **idle;      /* stack of chunks that are not in use */
	struct range_slot *slots; /* changes in flight */
	unsigned int slot_count;
	int inbox_event; /* eventfd: written when the inbox gets an io or a helper has completed a
			    job */

	/* Used only by the context's thread. */
	alignas(64) unsigned int idle_count;
	unsigned int queued; /* chunks with the backend */
	int64_t turn; /* bytes that a serial backend may still move for its host in this run; only
			 that backend counts them down */
	const struct io *waited_for; /* the only operation of the context, if its thread waits for
					it and does nothing else */
	struct io *waiting;          /* ios with something left to issue, oldest first */
	struct io **waiting_tail;
	unsigned int unfinished; /* number of ios submitted and not yet done */
	unsigned int last_slot;  /* index of the slot that was tried last */

	/* Ios whose range was granted by another thread, or that an observer has released, newest
	 * first. */
	_Atomic(struct io *) inbox;
	/* Other threads that have left something for this one, and may still have to write
	 * .inbox_event: ioctx_free() waits for them. */
	_Atomic unsigned int telling;

	struct counters counters; /* written by the context's thread, read by any thread */

	struct helpers helpers; /* for hosted contexts: see ioctx_help() */

	struct layered_work *layered[4]; /* layered.c's; NULL: not needed yet */

	/* For pool.c. */
	alignas(64) _Atomic bool busy;
	_Atomic bool owned;
	struct ioctx *next;
};

#endif
